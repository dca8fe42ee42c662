/* In place of the library: writes down what it is asked. With OLDER the table ends behind `prefetch`. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "semcache.h"

static char written[1 << 14];

static int note(const char *format, ...)
{
    va_list arguments;
    size_t used = strlen(written);
    va_start(arguments, format);
    vsnprintf(written + used, sizeof written - used, format, arguments);
    va_end(arguments);
    return SEMCACHE_OK;
}

/* What was written since the last time. */
const char *mock_written(void)
{
    static char told[sizeof written];
    strcpy(told, written);
    written[0] = 0;
    return told;
}

static int matrix(const char *what, const semcache_matrix *m)
{
    return note("%s %dx%d ld %d of %d:", what, (int)m->rows, (int)m->cols, (int)m->ld, (int)m->element);
}

static int event(uint64_t *number)
{
    if (number)
        *number = 42;
    return note("%s\n", number ? " event" : "");
}

static int devices(void) { return 3; }
static int prefetch(const semcache_matrix *m, int device, uint64_t *number)
{
    matrix("prefetch", m);
    note(" %d", device);
    return device == 7 ? note("\n"), SEMCACHE_NO_ROOM : event(number);
}
static int coherent(const semcache_matrix *m, uint64_t *number) { return matrix("coherent", m), event(number); }
static int to_cpu(const semcache_matrix *m, int write) { return matrix("to_cpu", m), note(" %d\n", write); }
static int evict(const semcache_matrix *m, int device) { return matrix("evict", m), note(" %d\n", device); }
static int residency(const semcache_matrix *m, int place, int64_t *bytes)
{
    *bytes = 1000 + place;
    return matrix("residency", m), note(" %d\n", place);
}
static int wait_(const uint64_t *number, int waits)
{
    note("wait %d %d\n", (int)*number, waits);
    return waits ? SEMCACHE_LOST : SEMCACHE_PENDING;
}
static int statistics(semcache_statistics *s)
{
    semcache_statistics found = {sizeof found, 1, 2, 3, 4, 5};
    return s->size == sizeof found ? *s = found, SEMCACHE_OK : SEMCACHE_INVALID;
}
static int section(int begin, uint64_t *number) { return note("section %d", begin), event(number); }
static int distribute(const semcache_matrix *m, const semcache_distribution *d, uint64_t *number)
{
    matrix("distribute", m);
    note(" %d %dx%d %dx%d", (int)d->kind, (int)d->mb, (int)d->nb, d->p, d->q);
    for (int64_t j = 0; d->owner && j < 2; j++)
        for (int64_t i = 0; i < 2; i++)
            note(" %d", d->owner(i, j, d->user));
    return event(number);
}
static int pin(const semcache_matrix *m, int device, int pinned, uint64_t *number)
{
    matrix("pin", m);
    note(" %d %d", device, pinned);
    return event(number);
}
static int to_gpu(const semcache_matrix *m, int device, int write, semcache_device_matrix *found)
{
    semcache_device_matrix there = {sizeof there, device, 0x1000, 64, 99, NULL};
    *found = there;
    return matrix("to_gpu", m), note(" %d %d\n", device, write);
}
static int release(uint64_t hold) { return note("release %d\n", (int)hold); }
static int name(const semcache_matrix *m, const char *called) { return matrix("name", m), note(" %s\n", called ? called : "(null)"); }
static int range(const char *called) { return note("range %s\n", called ? called : "(null)"); }
static int rates(int device, semcache_rates *r)
{
    semcache_rates found = {sizeof found, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    *r = found;
    return device == 0 ? SEMCACHE_OK : SEMCACHE_INVALID;
}
static int predict(const char *routine, const int64_t *sizes, int resident, semcache_prediction *p)
{
    semcache_prediction found = {sizeof found, 2, 0.5, 0.25};
    *p = found;
    return note("predict %s %d %d %d %d\n", routine, (int)sizes[0], (int)sizes[1], (int)sizes[2], resident);
}

#ifdef OLDER
#define LENGTH offsetof(semcache_interface, coherent)
#else
#define LENGTH sizeof(semcache_interface)
#endif
const semcache_interface semcache_interface_1 = {
    LENGTH,     devices, prefetch, coherent, to_cpu, evict,   residency, wait_,   statistics,
    section, distribute, pin,      to_gpu,   release, name, range,     rates, predict,
};

/* In place of the BLAS. */
void dgemm_(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc, size_t la, size_t lb)
{
    note("dgemm %c%c %d %d %d, %g, %d %g, %d %g, %g, %d %g, %d%d\n", *ta, *tb, *m, *n, *k, *alpha, *lda, *a, *ldb, *b, *beta, *ldc, *c,
         (int)la, (int)lb);
}
