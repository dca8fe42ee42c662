/* A library that takes long to load: its constructor says so in the file `loading`, and waits for the file `called`, ten seconds at most.
 * The file `loaded` says whether that came. */
#include <fcntl.h>
#include <unistd.h>

static void put(const char *name, const char *text, size_t length)
{
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (write(file, text, length) < 0)
        _exit(3);
    close(file);
}

__attribute__((constructor)) static void load(void)
{
    put("loading", "", 0);
    for (int i = 0; i < 1000; i++) {
        if (access("called", F_OK) == 0) {
            put("loaded", "called\n", 7);
            return;
        }
        usleep(10000);
    }
    put("loaded", "not called\n", 11);
}
