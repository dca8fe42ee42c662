/* Touches GIB GiB and frees them: on a virtual machine that gets its memory as it uses it, the next program does not
 * pay for that.
 *
 *   touch GIB */
#include <stdlib.h>

#include "common.h"

int main(int argc, char **argv)
{
    size_t count = (argc > 1 ? (size_t)atoi(argv[1]) : 1) << 27;
    double *a = doubles(count);
    poison(a, count);
    free(a);
    return 0;
}
