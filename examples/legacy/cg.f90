! Conjugate gradients for a dense symmetric positive definite system.
!
!   cg_f N [ITERATIONS]
!
! The matrix and the right hand side are integers made so that the solution is a vector of small integers.
program cg
  implicit none
  integer, parameter :: dp = kind(1.0d0)
  integer :: n, iterations, i, j, k
  real(dp), allocatable :: a(:, :), x(:), r(:), p(:), q(:)
  real(dp) :: start, rho, next, alpha, beta, error, total
  real(dp), external :: ddot, dnrm2
  external :: dgemv, daxpy, dscal, dcopy
  character(len=32) :: word

  n = 1000
  iterations = 100
  if (command_argument_count() >= 1) then
    call get_command_argument(1, word)
    read (word, *) n
  end if
  if (command_argument_count() >= 2) then
    call get_command_argument(2, word)
    read (word, *) iterations
  end if
  if (n < 1 .or. iterations < 1) stop 2

  allocate (a(n, n), x(n), r(n), p(n), q(n))
  x = 0
  r = 0
  do j = 1, n
    do i = 1, n
      if (i == j) then
        a(i, j) = 3.0_dp*n + mod(i - 1, 11)*real(n, dp)/8
      else
        a(i, j) = mod(i + j - 2, 5) - 2
      end if
      r(i) = r(i) + a(i, j)*wanted(j)
    end do
  end do

  start = dnrm2(n, r, 1)
  rho = ddot(n, r, 1, r, 1)
  call dcopy(n, r, 1, p, 1)
  do k = 1, iterations
    if (sqrt(rho) <= 1e-12_dp*start) exit
    call dgemv('N', n, n, 1.0_dp, a, n, p, 1, 0.0_dp, q, 1)
    alpha = rho/ddot(n, p, 1, q, 1)
    call daxpy(n, alpha, p, 1, x, 1)
    call daxpy(n, -alpha, q, 1, r, 1)
    next = ddot(n, r, 1, r, 1)
    beta = next/rho
    call dscal(n, beta, p, 1)
    call daxpy(n, 1.0_dp, r, 1, p, 1)
    rho = next
  end do

  error = 0
  total = 0
  do i = 1, n
    error = max(error, abs(x(i) - wanted(i)))
    total = total + (mod(i - 1, 13) + 1)*x(i)
  end do
  print '(a,i0)', 'cg n=', n
  print '(3a,f0.6,2a)', 'converged: ', yes(k <= iterations), ', checksum ', total, &
    ', error below 1e-8: ', yes(error < 1e-8_dp)
  deallocate (q, p, r, x, a)

contains

  pure real(dp) function wanted(i)
    integer, intent(in) :: i
    wanted = mod(i - 1, 5) + 1
  end function wanted

  pure function yes(condition) result(word)
    logical, intent(in) :: condition
    character(len=3) :: word
    word = merge('yes', 'NO ', condition)
  end function yes

end program cg
