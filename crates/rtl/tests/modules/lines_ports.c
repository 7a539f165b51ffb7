/* A handler of a line that comes from a file: it counts, and writes what it has counted to a port. */
#include <rtl.h>
#include <rtl_core.h>
#include <rtl_fifo.h>
#include <asm/io.h>
#include <errno.h>
#include <linux/module.h>
#include <linux/ioport.h>

#define PORT 0x378

static int line = 5;
MODULE_PARM(line, "i");
static int count;

static unsigned handler(unsigned number, struct pt_regs *registers)
{
    count++;
    outb(count, PORT);
    rtl_printf("line %u: %d, port %d\n", number, count, inb(PORT));
    rtl_hard_enable_irq(line);
    return 0;
}

int init_module(void)
{
    if (check_region(PORT, 1) || !request_region(PORT, 1, "lines")) return -EBUSY;
    rtl_printf("line of no file: %s\n", rtl_request_irq(6, handler) == -EINVAL ? "EINVAL" : "?");
    if (rtl_request_irq(line, handler) != 0) return -EIO;
    rtl_printf("twice: %s\n", rtl_request_irq(line, handler) == -EBUSY ? "EBUSY" : "?");
    rtl_hard_enable_irq(line);
    return 0;
}

void cleanup_module(void)
{
    rtl_printf("free: %d\n", rtl_free_irq(line));
    rtl_printf("again: %s\n", rtl_free_irq(line) == -EINVAL ? "EINVAL" : "?");
    release_region(PORT, 1);
}
