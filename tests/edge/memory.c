/* The allocator's whole family on matrices whose newest bytes may be on a device. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "edge.h"

enum { N = 64, NN = N * N, BYTES = NN * sizeof(double) };
static const int one = 1;
static double *a, *b;
static volatile size_t huge = SIZE_MAX / 2;

static void *ours(int kind, size_t bytes)
{
    void *at = NULL;
    switch (kind) {
    case 0: return malloc(bytes);
    case 1: return calloc(bytes, 1);
    case 2: return calloc(1, bytes);
    case 3: return realloc(NULL, bytes);
    case 4: return reallocarray(NULL, bytes / 8, 8);
    case 5: return posix_memalign(&at, 64, bytes) ? NULL : at;
    case 6: return posix_memalign(&at, 1 << 21, bytes) ? NULL : at;
    case 7: return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    case 8: return memalign(128, bytes);
    case 9: return valloc(bytes);
    default: return pvalloc(bytes);
    }
}

static const size_t alignment[] = {16, 16, 16, 16, 16, 64, 1 << 21, 4096, 128, 4096, 4096};

static void every_kind(void)
{
    for (int round = 0; round < 3; round++)
        for (int kind = 0; kind < 11; kind++) {
            double *c = need(ours(kind, BYTES));
            printf("kind %d: aligned %d, usable %d", kind, (uintptr_t)c % alignment[kind] == 0,
                   malloc_usable_size(c) >= BYTES);
            if (kind == 1 || kind == 2) {
                int clear = 1;
                for (int i = 0; i < NN; i++)
                    clear &= c[i] == 0;
                printf(", clear %d", clear);
            }
            multiply(N, 1, a, b, 0, c);
            /* The program may use all malloc_usable_size bytes. */
            size_t usable = malloc_usable_size(c);
            memset((char *)c + BYTES, 7, usable - BYTES);
            malloc_trim(0);
            daxpy_(&(int){NN}, &(double){2}, a, &one, c, &one);
            printf(" %016llx\n", (unsigned long long)hash(c, NN));
            multiply(N, 1, c, b, 0, c + 0);
            multiply(N, 1, a, b, 0, c);
            free(c); /* with its newest bytes on a device */
        }
    void *p = malloc(0), *q = calloc(0, 8);
    free(p), free(q), free(NULL);
    printf("too much: %d %d %d\n", malloc(huge) == NULL, calloc(huge, 3) == NULL,
           reallocarray(NULL, huge, 3) == NULL);
    printf("bad alignment: %d %d\n", posix_memalign(&p, 3, BYTES) != 0, posix_memalign(&p, 0, BYTES) != 0);
}

/* realloc of a result that only a device has, through the sizes at which allocators change between heap and mappings. */
static void reallocs(void)
{
    static const size_t sizes[] = {2 * BYTES, 8 * BYTES, 40 * BYTES,  (1 << 20) - 16, (1 << 20) + 4096, 3 << 20,
                                   5 << 19,   1 << 20,   (1 << 20) - 8, 200000,       BYTES + 8,        BYTES};
    for (int start = 0; start < 11; start += 2) {
        double *c = need(ours(start, BYTES));
        size_t have = BYTES;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            multiply(N, 1, a, b, 0, c);
            double *tail = c + have / 8 - N;
            if (have > BYTES) /* and one at the end */
                dgemm_("N", "N", &one, &(int){N}, &(int){N}, &(double){1}, a, &(int){N}, b, &(int){N}, &(double){0}, tail, &one);
            c = need(realloc(c, sizes[i]));
            size_t kept = sizes[i] < have ? sizes[i] : have;
            have = sizes[i];
            printf("to %zu: %016llx", have, (unsigned long long)hash(c, NN));
            if (kept > BYTES + 8 * N)
                printf(" %016llx", (unsigned long long)hash(c + kept / 8 - N - 2, N + 2));
            daxpy_(&(int){NN}, &(double){-1}, a, &one, c, &one);
            for (size_t k = kept / 8; k < have / 8; k++)
                c[k] = 1;
            c = need(realloc(c, have)); /* to what it is */
            printf(" %016llx\n", (unsigned long long)hash(c, have / 8));
        }
        c = realloc(c, 0) ? c : NULL;
    }
    double *c = need(reallocarray(NULL, NN, 8));
    for (int i = 1; i < 40; i++) {
        multiply(N, 1, a, b, 0, c + (i - 1) * 512);
        c = need(reallocarray(c, NN + i * 512, 8));
    }
    show("grown in steps", c, NN + 38 * 512);
    /* A refused realloc leaves everything as it was. */
    multiply(N, 1, a, b, 0, c);
    printf("refused %d\n", realloc(c, huge) == NULL);
    show("kept", c, NN + 38 * 512);
    free(c);
}

/* The same address again, as something else. */
static void again(void)
{
    uintptr_t before[64];
    int reused = 0;
    float *s = need(malloc(4 * 99 * 99)), *t = need(malloc(4 * 99 * 99));
    for (int i = 0; i < 99 * 99; i++)
        s[i] = (float)edge_draw(), t[i] = (float)edge_draw();
    for (int i = 0; i < 64; i++) {
        int rows = 20 + i * 7 % 60;
        size_t bytes = 200 * 200 * 8 + (i % 3) * 64;
        char *p = need(i % 5 == 4 ? calloc(bytes, 1) : malloc(bytes));
        before[i] = (uintptr_t)p;
        for (int k = 0; k < i; k++)
            reused += before[k] == before[i];
        double *x = (double *)p;
        switch (i % 4) {
        case 0: /* a double matrix, never read */
            multiply(N, 1, a, b, 0, x);
            break;
        case 1: { /* a float matrix with a leading dimension */
            const int ld = 99, r = rows;
            for (int k = 0; k < 99 * 99; k++)
                ((float *)p)[k] = (float)(k % 5);
            sgemm_("N", "T", &r, &r, &r, &(float){1}, s, &ld, t, &ld, &(float){1}, (float *)p, &ld);
            double sum = 0;
            for (int k = 0; k < 99 * 99; k++)
                sum += ((float *)p)[k] * (k % 17);
            printf("%d: %.0f\n", i, sum);
            break;
        }
        case 2: /* input first, then patched by the CPU */
            fill(x, 200 * 200);
            {
                double *y = need(malloc(BYTES)), *z = need(malloc(BYTES));
                multiply(N, 1, x, b, 0, y);
                x[i * 50] += 3;
                multiply(N, 1, x, b, 0, z);
                daxpy_(&(int){NN}, &(double){-1}, y, &one, z, &one);
                printf("%d: %016llx\n", i, (unsigned long long)hash(z, NN));
                free(y);
                free(z);
            }
            break;
        default: /* rows of a wide matrix */
            memset(p, 0, bytes);
            dgemm_("T", "N", &(int){rows % N + 1}, &(int){N}, &(int){N}, &(double){1}, a, &(int){N}, b, &(int){N},
                   &(double){0}, x + 5, &(int){200});
            dscal_(&(int){NN}, &(double){2}, x, &one);
            printf("%d: %016llx\n", i, (unsigned long long)hash(x, 200 * 200));
        }
        free(p);
    }
    fprintf(stderr, "reused %d\n", reused);
    free(s);
    free(t);
}

/* Blocks that one thread makes and another frees, in flight. */
static void *churn(void *seed)
{
    uint64_t h = 0;
    double *kept[8] = {0};
    for (int i = 0; i < 120; i++) {
        int k = (i * 7 + (int)(intptr_t)seed) % 8;
        if (kept[k] && i % 3)
            h = h * 31 + hash(kept[k], NN);
        free(kept[k]);
        kept[k] = need(ours(i % 6, BYTES + i % 5 * 4096));
        multiply(N, 1 + i % 3, a, b, 0, kept[k]);
    }
    for (int k = 0; k < 8; k++)
        free(kept[k]);
    double *last = need(malloc(sizeof h));
    memcpy(last, &h, sizeof h);
    return last;
}

static void threads(void)
{
    pthread_t thread[4];
    for (intptr_t i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, churn, (void *)i))
            exit(2);
    for (int i = 0; i < 4; i++) {
        void *h;
        pthread_join(thread[i], &h);
        printf("thread %d: %016llx\n", i, *(unsigned long long *)h);
        free(h);
    }
}

int main(void)
{
    a = doubles(NN), b = doubles(NN);
    fill(a, NN);
    fill(b, NN);
    every_kind();
    reallocs();
    again();
    threads();
    free(a);
    free(b);
    return 0;
}
