! Legacy storage: COMMON blocks, saved and initialised arrays, EQUIVALENCE. Nothing is allocated.
program legacy
  implicit none
  integer, parameter :: n = 160
  double precision a, b, c, x, y
  common /big/ a(n, n), b(n, n), c(n, n)
  common /vectors/ x(n), y(n)
  double precision flat(n * n)
  equivalence (flat(1), c(1, 1))
  common /more/ flat2
  double precision flat2(n * n)
  integer i, j, step
  double precision ddot, trace
  do j = 1, n
    do i = 1, n
      a(i, j) = mod(i * 7 + j * 3, 9) - 4
      b(i, j) = mod(i * 5 + j * 11, 7) - 3
    end do
    x(j) = mod(j, 5) - 2
    y(j) = 0
  end do
  do step = 1, 4
    call dgemm('N', 'T', n, n, n, 1d0, a, n, b, n, 0d0, c, n)
    call dgemv('N', n, n, 1d0, c, n, x, 1, 1d0, y, 1)
    call dcopy(n * n, c, 1, flat2, 1)
    trace = 0
    do i = 1, n
      trace = trace + c(i, i) + flat((i - 1) * n + i) + flat2(i)
    end do
    write (*, '(a, i2, 3f20.0)') 'step', step, trace, y(step), ddot(n, y, 1, x, 1)
    call keep(n, c, step)
    a(step, :) = a(step, :) + 1
    y = mod(y, 1000d0)
  end do
  write (*, '(4f24.0)') sum(c), sum(abs(c)), sum(y), sum(a)
end program legacy

subroutine keep(n, c, step)
  implicit none
  integer n, step
  double precision c(n, n)
  double precision, save :: total(160, 160) = 1d0
  double precision, save :: start(64 * 64)
  integer, save :: calls = 0
  integer i
  double precision dasum
  calls = calls + 1
  call daxpy(160 * 160, 1d0, c, 1, total, 1)
  if (calls == 1) start = [(dble(mod(i, 13)), i = 1, 64 * 64)]
  call dgemm('N', 'N', 64, 64, 64, 1d0, total, 160, start, 64, 0d0, total(65, 65), 160)
  write (*, '(a, i2, 2f24.0)') 'kept', calls, dasum(160 * 160, total, 1), total(step, 160)
  call dscal(160 * 160, 0d0, total, 1)
end subroutine keep
