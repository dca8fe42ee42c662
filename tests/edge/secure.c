/* Properties of a process that other processes see: mappings, descriptors, and files that it names. Linked with
 * whatever BLAS.
 *
 *   secure maps | rights       maps: no mapping is writable and executable; rights: a program with more rights than its
 *                              user, which computes and says what it was started with */
#include <sys/auxv.h>
#include <unistd.h>

#include "edge.h"

enum { N = 200, NN = N * N };

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    double *a = doubles(NN), *b = doubles(NN), *c = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    for (int i = 0; i < 3; i++)
        multiply(N, 1 + i, a, b, 0, c);
    show("c", c, NN);
    if (!strcmp(what, "maps")) {
        char line[512];
        FILE *f = fopen("/proc/self/maps", "r");
        while (f && fgets(line, sizeof line, f)) {
            char access[5] = "";
            if (sscanf(line, "%*s %4s", access) == 1 && access[1] == 'w' && access[2] == 'x')
                printf("writable and executable: %s", line);
        }
        return f ? 7 : 2;
    }
    printf("secure %lu, real %d, effective %d\n", getauxval(AT_SECURE), (int)getuid(), (int)geteuid());
    return 7;
}
