/* What a process writes to one FIFO comes back in another, by a handler that a write calls. */
#include <rtl.h>
#include <rtl_fifo.h>

int lines = 0;

int echo(unsigned int fifo)
{
    char buffer[64];
    int n;
    while ((n = rtf_get(fifo, buffer, sizeof(buffer))) > 0) {
        rtf_put(2, buffer, n);
        lines++;
        rtl_printf("echo of %d bytes\n", n);
        if (lines == 3) rtl_printf("done\n");
    }
    return 0;
}

int init_module(void)
{
    if (rtf_create(1, 1000) < 0 || rtf_create(2, 1000) < 0) return -1;
    return rtf_create_handler(1, echo);
}

void cleanup_module(void)
{
    rtf_destroy(1);
    rtf_destroy(2);
}
