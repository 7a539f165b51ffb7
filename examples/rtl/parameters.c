/* Parameters of each kind. */
#include <linux/module.h>
#include <linux/kernel.h>
#include <rtl.h>

MODULE_PARM(early, "i");
static int early = 3;
static int number = 7;
static char *name = "nobody";
static short values[4] = { 1, 2, 3, 4 };
static long big = 5;
MODULE_PARM(number, "i");
MODULE_PARM(name, "s");
MODULE_PARM(values, "1-4h");
MODULE_PARM(big, "l");
MODULE_AUTHOR("the Freehold authors");
MODULE_DESCRIPTION("parameters");

int init_module(void)
{
    printk(KERN_INFO "number %d, name %s, values %d %d %d %d, big %ld\n", number, name, values[0], values[1],
           values[2], values[3], big);
    printk("early %d\n", early);
    printk("done\n");
    return 0;
}

void cleanup_module(void) {}
