/* The library of foreign.c. */
#include <stdlib.h>

void give_back(void *p)
{
    free(p);
}

void *grow(void *p, size_t bytes)
{
    return realloc(p, bytes);
}

double *make(size_t bytes)
{
    return malloc(bytes);
}
