# For makefiles of RTLinux's time: what they expect of rtl.mk. `freehold rtl headers DIRECTORY` writes it with the headers.
CC = freehold rtl cc
CFLAGS = -O2
INCLUDE =
