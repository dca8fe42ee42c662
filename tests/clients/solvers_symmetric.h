/* Symmetric matrices that are not definite: sytrf, sytrs and sysv. Included by solvers_typed.h for each element type; complex matrices are
 * symmetric, too, not Hermitian. */
extern void CALL(sytrf_)(const char *, const INT *, T *, const INT *, INT *, T *, const INT *, INT *);
extern void CALL(sytrs_)(const char *, const INT *, const INT *, const T *, const INT *, const INT *, T *, const INT *, INT *);
extern void CALL(sysv_)(const char *, const INT *, const INT *, T *, const INT *, INT *, T *, const INT *, T *, const INT *, INT *);

/* A = L D L^T, or U D U^T, of factors with few digits: D has elements 8 and, in its first half, some blocks of order two with a zero
 * diagonal. The second row of each block is exchanged with one of the last rows, so that a pivot is there. */
static void CALL(_symmetric_matrix)(T *a, INT n, INT ld, char uplo)
{
    T *l = calloc((size_t)n * (size_t)n, sizeof *l);
    INT *partner = calloc((size_t)n, sizeof *partner), *rows = calloc((size_t)n, sizeof *rows), pairs = 0;
    for (INT i = 0; i < n; i++)
        partner[i] = rows[i] = i;
    for (INT k = 1; k + 1 < n / 2; k += 4) {
        partner[k] = k + 1, partner[k + 1] = k;
        rows[k + 1] = n - 1 - pairs, rows[n - 1 - pairs] = k + 1;
        pairs++;
    }
    for (INT j = 0; j < n; j++)
        for (INT i = j; i < n; i++)
            l[i + n * j] = i == j ? 1 : partner[j] == i ? 0 : CALL(_some)(i, j, 1) / 4;
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++)
            a[i + (size_t)ld * (size_t)j] = 0;
    for (INT k = 0; k < n; k++)
        for (INT j = 0; j < n; j++)
            if (l[j + n * partner[k]] != 0)
                for (INT i = 0; i < n; i++)
                    if (l[i + n * k] != 0) {
                        INT row = uplo == 'L' ? rows[i] : n - 1 - rows[i], column = uplo == 'L' ? rows[j] : n - 1 - rows[j];
                        a[row + (size_t)ld * (size_t)column] += 8 * l[i + n * k] * l[j + n * partner[k]];
                    }
    free(l), free(partner), free(rows);
}

static void CALL(_symmetric)(INT n)
{
    const INT ld = n + 3, sides = 5, lwork = 64 * n;
    const size_t all = (size_t)ld * (size_t)n;
    T *a = calloc(all, sizeof *a), *copy = calloc(all, sizeof *copy), *b = calloc((size_t)n * (size_t)sides, sizeof *b);
    T *work = calloc((size_t)lwork, sizeof *work);
    INT *pivots = calloc((size_t)n, sizeof *pivots), info = -99;
    for (const char *uplo = "LU"; *uplo; uplo++) {
        CALL(_symmetric_matrix)(a, n, ld, *uplo);
        memcpy(copy, a, all * sizeof *a);
        /* The other triangle is neither read nor changed. */
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < n; i++)
                if (*uplo == 'L' ? i < j : i > j)
                    CALL(_odd)(&a[i + (size_t)ld * (size_t)j], i + 3 * j);
        CALL(sytrf_)(uplo, &n, a, &ld, pivots, work, &lwork, &info);
        uint64_t of_pivots = 0;
        INT blocks = 0;
        for (INT i = 0; i < n; i++)
            of_pivots = of_pivots * 31 + (uint64_t)(int64_t)pivots[i], blocks += pivots[i] < 0;
        printf("sytrf %c %ld %016" PRIx64 " of order two %ld, work %.0f\n", *uplo, (long)info, of_pivots, (long)blocks, (double)creal(work[0]));
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        CALL(sytrs_)(uplo, &n, &sides, a, &ld, pivots, b, &n, &info);
        CALL(_solved)("sytrs", b, n, sides);
        long kept = CALL(_kept)(a, n, ld, *uplo);
        printf("sytrs %ld %ld %016" PRIx64 "\n", (long)info, kept, CALL(_hash)(a, n, n, ld));
        memcpy(a, copy, all * sizeof *a);
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        CALL(sysv_)(uplo, &n, &sides, a, &ld, pivots, b, &n, work, &lwork, &info);
        CALL(_solved)("sysv", b, n, sides);
        printf("sysv %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(b, n, sides, n));
        /* A row and a column of zeros, where B stays; an element that is infinite, or no number; too little workspace. */
        memcpy(a, copy, all * sizeof *a);
        for (INT i = 0; i < n; i++)
            a[i + (size_t)ld * (size_t)(n / 3)] = a[n / 3 + (size_t)ld * (size_t)i] = 0;
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        uint64_t before = CALL(_hash)(b, n, sides, n);
        CALL(sysv_)(uplo, &n, &sides, a, &ld, pivots, b, &n, work, &lwork, &info);
        printf("singular %ld %d\n", (long)info, before == CALL(_hash)(b, n, sides, n));
        for (int what = 0; what < 2; what++) {
            memcpy(a, copy, all * sizeof *a);
            a[n / 2 + (size_t)ld * (size_t)(n / 2)] = NUMBER(what ? INFINITY : NAN, 0);
            CALL(sytrf_)(uplo, &n, a, &ld, pivots, work, &lwork, &info);
            /* Whether an infinite number times zero is computed, which makes INFO other than 0 then, depends on the BLAS. */
            printf("no number %ld %ld\n", what ? 0 : (long)info, CALL(_finite)(a, n, ld));
        }
        memcpy(a, copy, all * sizeof *a);
        CALL(sytrf_)(uplo, &n, a, &ld, pivots, work, &(INT){1}, &info);
        printf("in little workspace %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, n, ld));
        CALL(sytrf_)(uplo, &n, a, &ld, pivots, work, &(INT){0}, &info);
        printf("in none %ld\n", (long)info);
        /* Pivots that no factorization gives name rows that are done with. */
        for (INT i = 0; i < n; i++)
            pivots[i] = *uplo == 'L' ? 1 : n;
        memset(b, 0, (size_t)n * (size_t)sides * sizeof *b);
        CALL(sytrs_)(uplo, &n, &sides, a, &ld, pivots, b, &n, &info);
        printf("other pivots %ld\n", (long)info);
    }
    free(a), free(copy), free(b), free(work), free(pivots);
}
