/* For a compiler without -fPIC. */
int values[4] = { 1, 2, 3, 4 };
int pick = 2;
int init_module(void) { return values[pick] - 3; }
