/* Small and large products of which every element is read: memory checkers report those that they take for uninitialised. */
#include "edge.h"

int main(void)
{
    const int orders[] = {8, 300};
    for (int i = 0; i < 2; i++) {
        const int n = orders[i], nn = n * n;
        double *a = doubles(nn), *b = doubles(nn), *c = need(malloc(nn * sizeof(double)));
        fill(a, nn);
        fill(b, nn);
        multiply(n, 1, a, b, 0, c);
        show("c", c, nn);
        multiply(n, 1, a, c, 1, b);
        show("b", b, nn);
        free(a);
        free(b);
        free(c);
    }
    return 0;
}
