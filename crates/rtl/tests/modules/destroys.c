/* Each write of a process to one FIFO has another destroyed, which a process may have open. */
#include <rtl.h>
#include <rtl_fifo.h>

#define DESTROYED 44
#define ASKED 45

static int destroy(unsigned fifo)
{
    char byte;
    while (rtf_get(ASKED, &byte, 1) == 1) rtl_printf("destroy: %d\n", rtf_destroy(DESTROYED));
    return 0;
}

int init_module(void)
{
    if (rtf_create(DESTROYED, 100) || rtf_create(ASKED, 100)) return -1;
    return rtf_create_handler(ASKED, destroy);
}

void cleanup_module(void)
{
    rtf_destroy(DESTROYED);
    rtf_destroy(ASKED);
}
