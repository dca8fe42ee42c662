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
const semcache_interface semcache_interface_1 = {offsetof(semcache_interface, prefetch), two, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                         NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

int main(void)
{
    double a[4] = {1, 2, 3, 4};
    semcache_matrix view = semcache_view(a, 2, 2, 2, sizeof *a);
    semcache_event event = {7};
    semcache_statistics all;
    semcache_distribution cyclic = semcache_block_cyclic(1, 1, 1, 1);
    semcache_device_matrix there;
    semcache_rates rates;
    semcache_prediction prediction;
    int64_t bytes;
    there.hold = 1;
    all.size = sizeof all;
    if (semcache_devices() != 2)
        return printf("the table was not found\n"), 1;
    int answers[] = {semcache_prefetch(&view, 0, &event), semcache_coherent(&view, NULL), semcache_read_cpu(&view),
                     semcache_write_cpu(&view), semcache_evict(&view, 0), semcache_residency(&view, 0, &bytes),
                     semcache_wait(&event), semcache_test(&event), semcache_count(&all), semcache_begin(), semcache_end(&event),
                     semcache_distribute(&view, &cyclic, &event), semcache_pin(&view, 0, &event), semcache_unpin(&view),
                     semcache_read_gpu(&view, 0, &there), semcache_write_gpu(&view, 0, &there), semcache_release_gpu(&there),
                     semcache_name(&view, "a"), semcache_range_begin("b"), semcache_range_end(), semcache_device_rates(0, &rates),
                     semcache_predict("dgemm", 1, 1, 1, 0, &prediction),
                     semcache_csr_multiply(NULL, 'N', NULL, &view, NULL, &view)};
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
