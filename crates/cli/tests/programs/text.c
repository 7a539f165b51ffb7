/* Goes round the data of a shared library. text LIBRARY: prints "ready"; then for each line of input has the kernel drop
 * its pages of the library's file, reads all of the symbol `blob`, and prints a hash of it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **words) {
	if (count != 2)
		return 2;
	void *library = dlopen(words[1], RTLD_NOW);
	const uint64_t *blob = library ? dlsym(library, "blob") : NULL;
	const uint64_t *end = library ? dlsym(library, "blob_end") : NULL;
	int file = open(words[1], O_RDONLY | O_CLOEXEC);
	if (!blob || !end || file < 0)
		return 3;
	puts("ready");
	fflush(stdout);
	for (char line[16]; fgets(line, sizeof line, stdin);) {
		uint64_t hash = 0xcbf29ce484222325u;
		posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		for (const uint64_t *word = blob; word < end; word++)
			hash = (hash ^ *word) * 0x100000001b3u;
		printf("%016llx\n", (unsigned long long)hash);
		fflush(stdout);
	}
	return 0;
}
