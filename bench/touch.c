/* Touches so many GiB and gives them back: on a machine whose memory grows as it is used, what runs next does not
 * pay for it.
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
