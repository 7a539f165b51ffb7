# For makefiles of RTLinux's time: what they expect of rtl.mk. `freehold rtl headers DIRECTORY` writes it with the headers.
# Modules only: a program of the time-sharing side is compiled by `cc`.
RTL_DIR := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
FREEHOLD ?= freehold
CC = $(FREEHOLD) rtl cc
CFLAGS = -O2
INCLUDE =
USER_CFLAGS =
