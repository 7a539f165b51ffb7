/* Bits of words, each change at once. */
#ifndef FREEHOLD_RTL_BITOPS_H
#define FREEHOLD_RTL_BITOPS_H
#include <freehold_rtl.h>
#define rtl_bit_word(number, address) ((unsigned long *)(address) + (number) / (8 * sizeof(long)))
#define rtl_bit_mask(number) (1UL << ((number) % (8 * sizeof(long))))
#define set_bit(number, address) ((void)__sync_fetch_and_or(rtl_bit_word(number, address), rtl_bit_mask(number)))
#define clear_bit(number, address) ((void)__sync_fetch_and_and(rtl_bit_word(number, address), ~rtl_bit_mask(number)))
#define change_bit(number, address) ((void)__sync_fetch_and_xor(rtl_bit_word(number, address), rtl_bit_mask(number)))
#define test_bit(number, address) ((*rtl_bit_word(number, address) & rtl_bit_mask(number)) != 0)
#define test_and_set_bit(number, address) \
    ((__sync_fetch_and_or(rtl_bit_word(number, address), rtl_bit_mask(number)) & rtl_bit_mask(number)) != 0)
#define test_and_clear_bit(number, address) \
    ((__sync_fetch_and_and(rtl_bit_word(number, address), ~rtl_bit_mask(number)) & rtl_bit_mask(number)) != 0)
#endif
