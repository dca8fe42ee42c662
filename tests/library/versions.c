/* An older library with a newer header, and a newer library with an older header: a library that is a program's own plays both. Linked
 * before semcache, and named in the program, its table is the one that is found. */
#include <stdio.h>

#include "semcache.h"

/* As an older library: the table ends behind `devices`. */
static int two(void)
{
    return 2;
}

#ifdef __cplusplus
extern "C"
#endif
const semcache_interface semcache_interface_1 = {offsetof(semcache_interface, prefetch), two, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

int main(void)
{
    double a[4] = {1, 2, 3, 4};
    semcache_matrix view = semcache_view(a, 2, 2, 2, sizeof *a);
    semcache_event event = {7};
    semcache_statistics all;
    int64_t bytes;
    all.size = sizeof all;
    if (semcache_devices() != 2)
        return printf("the table was not found\n"), 1;
    int answers[] = {semcache_prefetch(&view, 0, &event), semcache_coherent(&view, NULL), semcache_read_cpu(&view),
                     semcache_write_cpu(&view), semcache_evict(&view, 0), semcache_residency(&view, 0, &bytes),
                     semcache_wait(&event), semcache_test(&event), semcache_count(&all)};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (answers[i] != SEMCACHE_ABSENT)
            return printf("function %d of an older library: %d\n", (int)i, answers[i]), 1;
    if (event.number != 0)
        return printf("an event of an absent function\n"), 1;
    for (int status = 0; status <= SEMCACHE_FAILED; status++)
        if (semcache_message(status) == semcache_message(-1))
            return printf("status %d has no message\n", status), 1;
    printf("versions\n");
    return 0;
}
