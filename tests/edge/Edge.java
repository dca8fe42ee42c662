import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;

/** Products through JNI, between the faults that a Java virtual machine makes for itself. */
public final class Edge {
    static final int N = 64;

    static native void multiply(int n, ByteBuffer a, ByteBuffer b, ByteBuffer c);

    static native void multiplyArrays(int n, double[] a, double[] b, double[] c);

    static native boolean handlersKept();

    static ByteBuffer matrix() {
        return ByteBuffer.allocateDirect(N * N * 8).order(ByteOrder.nativeOrder());
    }

    static int[] nothing(int i) {
        return i < 0 ? new int[1] : null;
    }

    static int depth(int n) {
        return depth(n + 1) + 1;
    }

    static long sum(DoubleBuffer x) {
        long h = 0;
        for (int i = 0; i < N * N; i++) {
            h = h * 31 + (long) x.get(i);
        }
        return h;
    }

    public static void main(String[] args) throws Exception {
        System.loadLibrary("edge");
        ByteBuffer a = matrix(), b = matrix(), c = matrix();
        double[] x = new double[N * N], y = new double[N * N], z = new double[N * N];
        for (int i = 0; i < N * N; i++) {
            a.asDoubleBuffer().put(i, x[i] = i * 7 % 9 - 4);
            b.asDoubleBuffer().put(i, y[i] = i * 5 % 7 - 3);
        }
        int caught = 0, overflows = 0;
        byte[][] garbage = new byte[64][];
        for (int round = 0; round < 300; round++) {
            multiply(N, a, b, c);
            // Compiled code finds null by a fault, and stops for the collector by one.
            for (int i = 0; i < 2000; i++) {
                try {
                    caught += nothing(i)[0];
                } catch (NullPointerException e) {
                    caught++;
                }
            }
            garbage[round % 64] = new byte[1 << 18];
            if (round % 50 == 0) {
                try {
                    depth(0);
                } catch (StackOverflowError e) {
                    overflows++;
                }
                System.gc();
                System.out.println(round + ": " + sum(c.asDoubleBuffer()));
                multiplyArrays(N, x, y, z);
                System.out.println("array: " + z[5] + " " + z[N * N - 1]);
            }
            c.asDoubleBuffer().put(round, 3);
            if (round % 7 == 0) {
                multiply(N, c, b, a);
                for (int i = 0; i < N * N; i++) {
                    a.asDoubleBuffer().put(i, i * (round + 3) % 9 - 4);
                }
            }
        }
        Thread[] threads = new Thread[3];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                ByteBuffer own = matrix();
                for (int i = 0; i < 100; i++) {
                    multiply(N, a, b, own);
                    own.asDoubleBuffer().get(i);
                }
            });
            threads[t].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        System.out.println(caught + " nulls, " + overflows + " overflows, handlers " + handlersKept());
        multiply(N, a, b, c);
        System.out.println("last: " + sum(c.asDoubleBuffer()));
    }
}
