/* The tests of solvers.c for one element type: T, of letter P (s d c z), whose real numbers are R; COMPLEX is 1 or 0. */

#define CALL(name) JOIN(P, name)
#define GETRF CALL(getrf_)
#define GETRS CALL(getrs_)
#define GESV CALL(gesv_)
#define POTRF CALL(potrf_)
#define POTRS CALL(potrs_)
#define POSV CALL(posv_)
#define TRSM CALL(trsm_)
#define GEMM CALL(gemm_)

extern void GETRF(const INT *, const INT *, T *, const INT *, INT *, INT *);
extern void GETRS(const char *, const INT *, const INT *, const T *, const INT *, const INT *, T *, const INT *, INT *);
extern void GESV(const INT *, const INT *, T *, const INT *, INT *, T *, const INT *, INT *);
extern void POTRF(const char *, const INT *, T *, const INT *, INT *);
extern void POTRS(const char *, const INT *, const INT *, const T *, const INT *, T *, const INT *, INT *);
extern void POSV(const char *, const INT *, const INT *, T *, const INT *, T *, const INT *, INT *);
#ifndef WIDE
extern void GEMM(const char *, const char *, const INT *, const INT *, const INT *, const T *, const T *, const INT *, const T *,
                 const INT *, const T *, T *, const INT *);
#endif

#if COMPLEX
#define NUMBER(re, im) ((T)((re) + (im)*I))
#define CONJ(x) (JOIN2(conj, SUFFIX)(x))
#else
#define NUMBER(re, im) ((T)(re))
#define CONJ(x) (x)
#endif

/* The elements of a matrix, without the sign of zeros. */
static uint64_t CALL(_hash)(const T *a, INT rows, INT cols, INT ld)
{
    uint64_t hash = 14695981039346656037u;
    for (INT j = 0; j < cols; j++)
        for (INT i = 0; i < rows; i++) {
            T x = a[i + (size_t)ld * (size_t)j];
            R parts[2] = {(R)(creal(x) + 0.0), (R)(cimag(x) + 0.0)};
            for (int part = 0; part <= COMPLEX; part++)
                for (size_t byte = 0; byte < sizeof(R); byte++)
                    hash = (hash ^ ((unsigned char *)&parts[part])[byte]) * 1099511628211u;
        }
    return hash;
}

/* Some of the elements are not zero. */
static T CALL(_some)(INT i, INT j, int most)
{
    unsigned h = (unsigned)(i * 131 + j * 61) * 2654435761u >> 16;
    if (h % 64)
        return 0;
    return NUMBER((int)(h / 64 % (unsigned)(2 * most + 1)) - most, (int)(h / 512 % (unsigned)(2 * most + 1)) - most);
}

/* A = P L U, m by n, whose factors have few digits: L is a unit lower triangle of quarters, U has the diagonal 8. Each step of partial
 * pivoting finds one largest element. */
static void CALL(_general)(T *a, INT m, INT n, INT ld)
{
    INT least = m < n ? m : n;
    T *l = calloc((size_t)m * (size_t)least, sizeof *l), *u = calloc((size_t)least * (size_t)n, sizeof *u);
    for (INT j = 0; j < least; j++)
        for (INT i = j; i < m; i++)
            l[i + m * j] = i == j ? 1 : CALL(_some)(i, j, 1) / 4;
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < least && i <= j; i++)
            u[i + least * j] = i == j ? 8 : CALL(_some)(j, i, 2);
    for (INT j = 0; j < n; j++) {
        T *column = a + (size_t)ld * (size_t)j;
        for (INT i = 0; i < m; i++)
            column[i] = 0;
        for (INT k = 0; k < least && k <= j; k++)
            if (u[k + least * j] != 0)
                for (INT i = k; i < m; i++)
                    if (l[i + m * k] != 0)
                        /* Rows are reversed. */
                        column[m - 1 - i] += l[i + m * k] * u[k + least * j];
    }
    free(l), free(u);
}

/* A = L L^H of an L with few digits. */
static void CALL(_definite)(T *a, INT n, INT ld)
{
    T *l = calloc((size_t)n * (size_t)n, sizeof *l);
    for (INT j = 0; j < n; j++)
        for (INT i = j; i < n; i++)
            l[i + n * j] = i == j ? 1 << (j % 3) : CALL(_some)(i, j, 1);
    for (INT j = 0; j < n; j++)
        for (INT i = 0; i < n; i++)
            a[i + (size_t)ld * (size_t)j] = 0;
    for (INT k = 0; k < n; k++)
        for (INT j = k; j < n; j++)
            if (l[j + n * k] != 0)
                for (INT i = k; i < n; i++)
                    a[i + (size_t)ld * (size_t)j] += l[i + n * k] * CONJ(l[j + n * k]);
    free(l);
}

/* B = op(A) X for an X of small integers. */
static void CALL(_sides)(const T *a, INT n, INT ld, T *b, INT sides, char op)
{
    for (INT s = 0; s < sides; s++)
        for (INT i = 0; i < n; i++) {
            T sum = 0;
            for (INT k = 0; k < n; k++) {
                T of = op == 'N' ? a[i + (size_t)ld * (size_t)k] : a[k + (size_t)ld * (size_t)i];
                sum += (op == 'C' ? CONJ(of) : of) * NUMBER((k + s) % 7 - 3, 0);
            }
            b[i + (size_t)n * (size_t)s] = sum;
        }
}

/* What LAPACK must leave as it is: not numbers, infinite ones, zeros with a sign. */
static void CALL(_odd)(T *at, INT which)
{
    static const R all[][2] = {{NAN, 0}, {1, INFINITY}, {-(R)0.0, -(R)0.0}, {-INFINITY, 1}, {3, -(R)0.0}};
    memcpy(at, all[which % 5], sizeof *at);
}

/* Whether it is so still; any NaN is as good as another. */
static int CALL(_still)(const T *at, INT which)
{
    T was;
    R parts[2][2];
    CALL(_odd)(&was, which);
    memcpy(parts[0], at, sizeof *at), memcpy(parts[1], &was, sizeof was);
    for (int part = 0; part <= COMPLEX; part++)
        if (!(isnan(parts[0][part]) && isnan(parts[1][part])) && memcmp(&parts[0][part], &parts[1][part], sizeof(R)))
            return 0;
    return 1;
}

static void CALL(_solved)(const char *what, const T *b, INT n, INT sides)
{
    for (INT s = 0; s < sides; s++)
        for (INT i = 0; i < n; i++)
            if (b[i + (size_t)n * (size_t)s] != NUMBER((i + s) % 7 - 3, 0))
                failed(what, i, s);
}

static void CALL(_run)(INT n)
{
    const INT sides = 5, ld = n + 3, wide = n + 40;
    /* The matrix lies in the middle of other data, which changes between calls. */
    T *memory = calloc((size_t)ld * (size_t)wide + 64, sizeof *memory), *a = memory + 5, *end = a + (size_t)ld * (size_t)wide;
    T *b = calloc((size_t)n * (size_t)sides, sizeof *b), *copy = calloc((size_t)ld * (size_t)wide, sizeof *copy);
    INT *pivots = calloc((size_t)wide, sizeof *pivots), info = -99;
    const size_t all = (size_t)ld * (size_t)n * sizeof *a;
    uint64_t of_pivots = 0;

    for (int turn = 0; turn < 2; turn++) {
        memory[0] = *end = NUMBER(turn, 0);
        CALL(_general)(a, n, n, ld);
        memcpy(copy, a, all);
        GETRF(&n, &n, a, &ld, pivots, &info);
        memory[1] = memory[0];
        printf("getrf %ld", (long)info);
        for (const char *op = "NTC"; *op; op++) {
            CALL(_sides)(copy, n, ld, b, sides, *op);
            GETRS(op, &n, &sides, a, &ld, pivots, b, &n, &info);
            CALL(_solved)("getrs", b, n, sides);
        }
        for (INT i = 0; i < n; i++)
            of_pivots = of_pivots * 31 + (uint64_t)pivots[i];
        printf(" %016" PRIx64 " %016" PRIx64 "\n", CALL(_hash)(a, n, n, ld), of_pivots);
    }
    /* The factor changes. */
    CALL(_sides)(copy, n, ld, b, sides, 'N');
    a[n / 2 + (size_t)ld * (size_t)(n / 2)] *= 2;
    GETRS("N", &n, &sides, a, &ld, pivots, b, &n, &info);
    printf("changed %016" PRIx64 "\n", CALL(_hash)(b, n, sides, n));

    memcpy(a, copy, all);
    CALL(_sides)(copy, n, ld, b, sides, 'N');
    GESV(&n, &sides, a, &ld, pivots, b, &n, &info);
    CALL(_solved)("gesv", b, n, sides);
    printf("gesv %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, n, ld));

    /* Right sides on the stack. */
    T stack[n];
    memcpy(a, copy, all);
    CALL(_sides)(copy, n, ld, stack, 1, 'N');
    GESV(&n, &(INT){1}, a, &ld, pivots, stack, &n, &info);
    CALL(_solved)("gesv on the stack", stack, n, 1);

    for (const char *uplo = "LU"; *uplo; uplo++) {
        CALL(_definite)(a, n, ld);
        memcpy(copy, a, all);
        /* The other triangle is neither read nor changed. */
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < n; i++)
                if (*uplo == 'L' ? i < j : i > j)
                    CALL(_odd)(&a[i + (size_t)ld * (size_t)j], i + 3 * j);
        POTRF(uplo, &n, a, &ld, &info);
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        POTRS(uplo, &n, &sides, a, &ld, b, &n, &info);
        CALL(_solved)("potrs", b, n, sides);
        long kept = 0;
        for (INT j = 0; j < n; j++)
            for (INT i = 0; i < n; i++)
                if (*uplo == 'L' ? i < j : i > j) {
                    kept += CALL(_still)(&a[i + (size_t)ld * (size_t)j], i + 3 * j);
                    a[i + (size_t)ld * (size_t)j] = 0;
                }
        printf("potrf %c %ld %ld %016" PRIx64 "\n", *uplo, (long)info, kept, CALL(_hash)(a, n, n, ld));
        memcpy(a, copy, all);
        CALL(_sides)(copy, n, ld, b, sides, 'N');
        POSV(uplo, &n, &sides, a, &ld, b, &n, &info);
        CALL(_solved)("posv", b, n, sides);
        printf("posv %ld\n", (long)info);
    }

    /* INFO other than 0: LAPACK's own results. */
    memcpy(a, copy, all);
    a[n / 3 + (size_t)ld * (size_t)(n / 3)] = NUMBER(-1, 0);
    POTRF("L", &n, a, &ld, &info);
    printf("not definite %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n / 3, n / 3, ld));
    memcpy(a, copy, all);
    a[n / 3 + (size_t)ld * (size_t)(n / 3)] = NUMBER(NAN, 0);
    POTRF("U", &n, a, &ld, &info);
    printf("not a number %ld\n", (long)info);
    CALL(_general)(a, n, n, ld);
    for (INT i = 0; i < n; i++)
        a[i + (size_t)ld * (size_t)(n - 2)] = 0;
    CALL(_sides)(copy, n, ld, b, sides, 'N');
    uint64_t before = CALL(_hash)(b, n, sides, n);
    GESV(&n, &sides, a, &ld, pivots, b, &n, &info);
    printf("singular %ld %d %016" PRIx64 "\n", (long)info, before == CALL(_hash)(b, n, sides, n), CALL(_hash)(a, n, n, ld));

    /* Flat and tall. */
    CALL(_general)(a, n, wide, ld);
    GETRF(&n, &wide, a, &ld, pivots, &info);
    printf("flat %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, wide, ld));
    CALL(_general)(a, n, n - 20, ld);
    GETRF(&n, &(INT){n - 20}, a, &ld, pivots, &info);
    printf("tall %ld %016" PRIx64 "\n", (long)info, CALL(_hash)(a, n, n - 20, ld));
    GETRF(&(INT){0}, &n, a, &ld, pivots, &info);
    printf("empty %ld\n", (long)info);

#ifndef WIDE
    /* A product, its factor, and a solution: nothing is read in between. */
    const T one = 1, zero = 0;
    T *square = calloc((size_t)n * (size_t)n, sizeof *square);
    CALL(_definite)(copy, n, n);
    CALL(_definite)(a, n, n);
    for (INT i = 0; i < n * n; i++)
        a[i] = 0;
    for (INT i = 0; i < n; i++)
        a[i + n * i] = 1;
    GEMM("N", "N", &n, &n, &n, &one, copy, &n, a, &n, &zero, square, &n);
    POTRF("L", &n, square, &n, &info);
    CALL(_sides)(copy, n, n, b, sides, 'N');
    POTRS("L", &n, &sides, square, &n, b, &n, &info);
    CALL(_solved)("chain", b, n, sides);
    free(square);
#endif
    free(memory), free(b), free(copy), free(pivots);
}

#undef CALL
#undef GETRF
#undef GETRS
#undef GESV
#undef POTRF
#undef POTRS
#undef POSV
#undef TRSM
#undef GEMM
#undef NUMBER
#undef CONJ
#undef T
#undef R
#undef P
#undef COMPLEX
#undef SUFFIX
