/* Caffe's calls of the BLAS, as a client from before the GPUs: the convolution by im2col and the inner product, forward
   and backward, with the arguments that Caffe's BaseConvolutionLayer and InnerProductLayer give to cblas_sgemm,
   cblas_sgemv and cblas_saxpy. Everything is a whole number small enough for a float, so what it prints is exact.

     caffe lenet|cifar|groups [BATCH]     the convolutions and inner products of these networks
     caffe mlp [DIVISOR [BATCH]]          the network 3072-16384-16384-10, each width divided; two steps of training */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RowMajor = 101, NoTrans = 111, Trans = 112 };

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                 int ldb, float beta, float *c, int ldc);
void cblas_sgemv(int order, int t, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                 float beta, float *y, int incy);
void cblas_saxpy(int n, float alpha, const float *x, int incx, float *y, int incy);

/* The two wrappers of Caffe's math_functions.cpp: row-major, leading dimensions as wide as the rows. */
static void gemm(int ta, int tb, int m, int n, int k, float alpha, const float *a, const float *b, float beta, float *c)
{
    cblas_sgemm(RowMajor, ta, tb, m, n, k, alpha, a, ta == NoTrans ? k : m, b, tb == NoTrans ? n : k, beta, c, n);
}

static void gemv(int t, int m, int n, float alpha, const float *a, const float *x, float beta, float *y)
{
    cblas_sgemv(RowMajor, t, m, n, alpha, a, n, x, 1, beta, y, 1);
}

/* A blob: data and gradient, as Caffe's SyncedMemory allocates them. */
struct blob {
    size_t count;
    float *data, *diff;
};

static struct blob blob(size_t count)
{
    struct blob b = {count, calloc(count, sizeof(float)), calloc(count, sizeof(float))};
    if (!b.data || !b.diff) exit(3);
    return b;
}

static void discard(struct blob b)
{
    free(b.data);
    free(b.diff);
}

/* From -1, 0 and 1, so that the sums stay below 2^24; one of SPARSE is not nought. */
static void fill(float *x, size_t count, unsigned seed, unsigned sparse)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (seed >> 8) % sparse ? 0 : (float)((seed >> 20) % 3) - 1;
    }
}

static void show(const char *layer, const char *what, const float *x, size_t count)
{
    double sum = 0, weighted = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        sum += x[i];
        weighted += x[i] * (double)(i % 17);
        if (fabs(x[i]) > largest) largest = fabs(x[i]);
    }
    printf("%-8s %-8s %.0f %.0f\n", layer, what, sum, weighted);
    if (largest > 16777216 || sum != floor(sum)) {
        printf("not exact\n");
        exit(4);
    }
}

struct shape {
    int channels, height, width, outputs, kernel, pad, stride, groups;
};

static void im2col(const float *image, const struct shape *s, int oh, int ow, float *column)
{
    for (int c = 0; c < s->channels; c++)
        for (int ky = 0; ky < s->kernel; ky++)
            for (int kx = 0; kx < s->kernel; kx++)
                for (int y = 0; y < oh; y++)
                    for (int x = 0; x < ow; x++) {
                        int iy = y * s->stride - s->pad + ky, ix = x * s->stride - s->pad + kx;
                        int inside = iy >= 0 && iy < s->height && ix >= 0 && ix < s->width;
                        *column++ = inside ? image[(c * s->height + iy) * s->width + ix] : 0;
                    }
}

static void col2im(const float *column, const struct shape *s, int oh, int ow, float *image)
{
    memset(image, 0, sizeof(float) * s->channels * s->height * s->width);
    for (int c = 0; c < s->channels; c++)
        for (int ky = 0; ky < s->kernel; ky++)
            for (int kx = 0; kx < s->kernel; kx++)
                for (int y = 0; y < oh; y++)
                    for (int x = 0; x < ow; x++, column++) {
                        int iy = y * s->stride - s->pad + ky, ix = x * s->stride - s->pad + kx;
                        if (iy >= 0 && iy < s->height && ix >= 0 && ix < s->width)
                            image[(c * s->height + iy) * s->width + ix] += *column;
                    }
}

static void convolution(const char *name, struct shape s, int batch, unsigned seed)
{
    const int oh = (s.height + 2 * s.pad - s.kernel) / s.stride + 1, ow = (s.width + 2 * s.pad - s.kernel) / s.stride + 1;
    const int out = oh * ow, depth = s.channels / s.groups * s.kernel * s.kernel, each = s.outputs / s.groups;
    const size_t bottom_size = (size_t)s.channels * s.height * s.width, top_size = (size_t)s.outputs * out;
    struct blob bottom = blob(batch * bottom_size), top = blob(batch * top_size), weight = blob((size_t)s.outputs * depth),
                bias = blob(s.outputs), column = blob((size_t)s.groups * depth * out), ones = blob(out);
    fill(bottom.data, bottom.count, seed, 2);
    fill(weight.data, weight.count, seed + 1, 2);
    fill(bias.data, bias.count, seed + 2, 1);
    for (int i = 0; i < out; i++) ones.data[i] = 1;

    for (int n = 0; n < batch; n++) {
        im2col(bottom.data + n * bottom_size, &s, oh, ow, column.data);
        for (int g = 0; g < s.groups; g++)
            gemm(NoTrans, NoTrans, each, out, depth, 1, weight.data + (size_t)g * each * depth,
                 column.data + (size_t)g * depth * out, 0, top.data + n * top_size + (size_t)g * each * out);
        gemm(NoTrans, NoTrans, s.outputs, out, 1, 1, bias.data, ones.data, 1, top.data + n * top_size);
    }
    show(name, "top", top.data, top.count);

    fill(top.diff, top.count, seed + 3, 8);
    for (int n = 0; n < batch; n++) gemv(NoTrans, s.outputs, out, 1, top.diff + n * top_size, ones.data, 1, bias.diff);
    for (int n = 0; n < batch; n++) {
        im2col(bottom.data + n * bottom_size, &s, oh, ow, column.data);
        for (int g = 0; g < s.groups; g++)
            gemm(NoTrans, Trans, each, depth, out, 1, top.diff + n * top_size + (size_t)g * each * out,
                 column.data + (size_t)g * depth * out, 1, weight.diff + (size_t)g * each * depth);
        for (int g = 0; g < s.groups; g++)
            gemm(Trans, NoTrans, depth, out, each, 1, weight.data + (size_t)g * each * depth,
                 top.diff + n * top_size + (size_t)g * each * out, 0, column.data + (size_t)g * depth * out);
        col2im(column.data, &s, oh, ow, bottom.diff + n * bottom_size);
    }
    show(name, "weight'", weight.diff, weight.count);
    show(name, "bias'", bias.diff, bias.count);
    show(name, "bottom'", bottom.diff, bottom.count);
    discard(bottom), discard(top), discard(weight), discard(bias), discard(column), discard(ones);
}

struct inner {
    int inputs, outputs;
    struct blob weight, bias;
};

static struct inner inner(int inputs, int outputs, unsigned seed, unsigned sparse)
{
    struct inner layer = {inputs, outputs, blob((size_t)inputs * outputs), blob(outputs)};
    fill(layer.weight.data, layer.weight.count, seed, sparse);
    fill(layer.bias.data, layer.bias.count, seed + 1, 1);
    return layer;
}

static void inner_forward(const struct inner *layer, int batch, const float *ones, const float *bottom, float *top)
{
    if (batch == 1) { /* as Caffe's GPU path has it; for the sake of the other sgemv */
        gemv(NoTrans, layer->outputs, layer->inputs, 1, layer->weight.data, bottom, 0, top);
        cblas_saxpy(layer->outputs, ones[0], layer->bias.data, 1, top, 1);
        return;
    }
    gemm(NoTrans, Trans, batch, layer->outputs, layer->inputs, 1, bottom, layer->weight.data, 0, top);
    gemm(NoTrans, NoTrans, batch, layer->outputs, 1, 1, ones, layer->bias.data, 1, top);
}

static void inner_backward(struct inner *layer, int batch, const float *ones, const float *bottom, const float *top_diff,
                           float *bottom_diff)
{
    gemm(Trans, NoTrans, layer->outputs, layer->inputs, batch, 1, top_diff, bottom, 1, layer->weight.diff);
    gemv(Trans, batch, layer->outputs, 1, top_diff, ones, 1, layer->bias.diff);
    gemm(NoTrans, NoTrans, batch, layer->inputs, layer->outputs, 1, top_diff, layer->weight.data, 0, bottom_diff);
}

/* The work between the layers, on the host: a sign instead of a rectifier, so that numbers stay small. */
static void sign(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) x[i] = (float)((x[i] > 0) - (x[i] < 0));
}

static void network(const char *name, const int *widths, int layers, int batch, int steps)
{
    struct inner *layer = calloc(layers, sizeof *layer);
    struct blob *blobs = calloc(layers + 1, sizeof *blobs), ones = blob(batch);
    char label[16];
    for (int i = 0; i < batch; i++) ones.data[i] = 1;
    for (int l = 0; l < layers; l++) layer[l] = inner(widths[l], widths[l + 1], 100 + l, 4);
    for (int l = 0; l <= layers; l++) blobs[l] = blob((size_t)batch * widths[l]);
    for (int step = 0; step < steps; step++) {
        fill(blobs[0].data, blobs[0].count, 7 + step, 4);
        for (int l = 0; l < layers; l++) {
            inner_forward(&layer[l], batch, ones.data, blobs[l].data, blobs[l + 1].data);
            if (l + 1 < layers) sign(blobs[l + 1].data, blobs[l + 1].count);
        }
        show(name, "top", blobs[layers].data, blobs[layers].count);
        fill(blobs[layers].diff, blobs[layers].count, 50 + step, 2);
        for (int l = layers; l-- > 0;) {
            inner_backward(&layer[l], batch, ones.data, blobs[l].data, blobs[l + 1].diff, blobs[l].diff);
            sign(blobs[l].diff, blobs[l].count);
        }
        for (int l = 0; l < layers; l++) {
            snprintf(label, sizeof label, "weight%d'", l);
            show(name, label, layer[l].weight.diff, layer[l].weight.count);
            snprintf(label, sizeof label, "bias%d'", l);
            show(name, label, layer[l].bias.diff, layer[l].bias.count);
            /* SGD's update: the blob's data less its gradient, which is then cleared. */
            sign(layer[l].weight.diff, layer[l].weight.count);
            cblas_saxpy((int)layer[l].weight.count, -1, layer[l].weight.diff, 1, layer[l].weight.data, 1);
            sign(layer[l].weight.data, layer[l].weight.count);
            cblas_saxpy((int)layer[l].bias.count, -1, layer[l].bias.diff, 1, layer[l].bias.data, 1);
            memset(layer[l].weight.diff, 0, sizeof(float) * layer[l].weight.count);
            memset(layer[l].bias.diff, 0, sizeof(float) * layer[l].bias.count);
        }
        show(name, "bottom'", blobs[0].diff, blobs[0].count);
    }
    for (int l = 0; l < layers; l++) discard(layer[l].weight), discard(layer[l].bias);
    for (int l = 0; l <= layers; l++) discard(blobs[l]);
    discard(ones);
    free(layer);
    free(blobs);
}

int main(int argc, char **argv)
{
    const char *which = argc > 1 ? argv[1] : "";
    const int second = argc > 2 ? atoi(argv[2]) : 0, third = argc > 3 ? atoi(argv[3]) : 0;
    if (!strcmp(which, "lenet")) {
        const int batch = second ? second : 64;
        convolution("conv1", (struct shape){1, 28, 28, 20, 5, 0, 1, 1}, batch, 1);
        convolution("conv2", (struct shape){20, 12, 12, 50, 5, 0, 1, 1}, batch, 2);
        network("ip", (int[]){800, 500, 10}, 2, batch, 2);
        network("deploy", (int[]){800, 500, 10}, 2, 1, 1);
    } else if (!strcmp(which, "cifar")) {
        const int batch = second ? second : 100;
        convolution("conv1", (struct shape){3, 32, 32, 32, 5, 2, 1, 1}, batch, 1);
        convolution("conv2", (struct shape){32, 16, 16, 32, 5, 2, 1, 1}, batch, 2);
        convolution("conv3", (struct shape){32, 8, 8, 64, 5, 2, 1, 1}, batch, 3);
        network("ip", (int[]){1024, 64, 10}, 2, batch, 2);
    } else if (!strcmp(which, "groups")) {
        /* AlexNet's second and fourth convolution, and its stride, on smaller images. */
        const int batch = second ? second : 4;
        convolution("conv1", (struct shape){3, 67, 67, 96, 11, 0, 4, 1}, batch, 1);
        convolution("conv2", (struct shape){96, 13, 13, 256, 5, 2, 1, 2}, batch, 2);
        convolution("conv4", (struct shape){192, 7, 7, 192, 3, 1, 1, 2}, batch, 3);
    } else if (!strcmp(which, "mlp")) {
        const int divisor = second ? second : 1, batch = third ? third : 1024;
        network("mlp", (int[]){3072 / divisor, 16384 / divisor, 16384 / divisor, 10}, 3, batch, 2);
    } else {
        fprintf(stderr, "usage: caffe lenet|cifar|groups [BATCH] | mlp [DIVISOR [BATCH]]\n");
        return 2;
    }
    return 0;
}
