/* Linked with any BLAS. SUFFIX: the end of its names. */
#include "door.h"

#ifndef SUFFIX
#define SUFFIX _
#endif
#define GLUE(name, suffix) name##suffix
#define NAME(name, suffix) GLUE(name, suffix)
#define DECLARE(name) extern __typeof__(*blas.name) NAME(name, SUFFIX);
ROUTINES(DECLARE)

int main(void)
{
#define SET(name) blas.name = NAME(name, SUFFIX);
    ROUTINES(SET)
    return work();
}
