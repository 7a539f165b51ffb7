/* Writes all pages of its memory in order, in several rounds: rounds MIB ROUNDS BYTE. With a byte of 0 they stay zeros. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int count, char **words) {
	if (count != 4)
		return 2;
	size_t length = (size_t)atol(words[1]) << 20;
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 3;
	for (int round = atoi(words[2]); round > 0; round--)
		for (size_t at = 0; at < length; at += 4096)
			memset(memory + at, atoi(words[3]), 4096);
	return 0;
}
