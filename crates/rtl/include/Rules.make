# For makefiles of RTLinux's time, which include it at their end. Nothing is needed here.
