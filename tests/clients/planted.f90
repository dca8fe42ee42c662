! An element of an input is written between calls: the report must name the line.
program planted
    implicit none
    integer, parameter :: n = 512
    double precision, allocatable :: a(:, :), b(:, :), c(:, :)
    integer :: k
    allocate (a(n, n), b(n, n), c(n, n))
    a = 1
    b = 2
    c = 0
    do k = 1, 30
        call dgemm('N', 'N', n, n, n, 1d0, a, n, b, n, 0d0, c, n)
        a(k, 5*k) = a(k, 5*k) + 1 ! input
    end do
    print '(f12.1)', c(1, 1)
end program planted
