/*
 * The arithmetic of a level-set step, written once for one voxel or for a
 * vector of them: plain IEEE fp32 sums, products, divisions and square roots in
 * a fixed order, nothing contracted. Included (more than once) with
 *
 *   LS_REAL        the type: float, or a vector of floats
 *   LS_NAME(name)  the name of the function for this type
 *   LS_INLINE      what stands before a function
 *   LS_C(c)        the constant c in every lane
 *   LS_SQRT(a)     correctly rounded square root
 *   LS_POS(a)      a where a > 0, else 0
 *   LS_SIGN(a)     1 where a > 0, else -1
 *
 * Names: u and l are the upper and the lower of two along an axis. Every
 * difference across the border of the picture is 0.
 */

/* The normal's component along an axis, on the face between two voxels. d:
 * upper minus lower voxel. c, e: along the two other axes, next minus previous
 * voxel, summed over the two voxels of the face (four times the mean central
 * difference). */
LS_INLINE LS_REAL LS_NAME(ls_face)(LS_REAL d, LS_REAL c, LS_REAL e)
{
    const LS_REAL m = c * LS_C(0.25f), n = e * LS_C(0.25f);

    return d / LS_SQRT((LS_C(LS_EPS) + d * d) + (m * m + n * n));
}

/* Half the divergence of the normals on the six faces. */
LS_INLINE LS_REAL LS_NAME(ls_curvature)(LS_REAL xu, LS_REAL xl, LS_REAL yu, LS_REAL yl, LS_REAL zu,
                                        LS_REAL zl)
{
    return LS_C(0.5f) * (((xu - xl) + (yu - yl)) + (zu - zl));
}

/* What ls_face takes along another axis: next minus previous voxel of the lower
 * voxel, and of the upper one. */
LS_INLINE LS_REAL LS_NAME(ls_across)(LS_REAL lower_next, LS_REAL lower_previous, LS_REAL upper_next,
                                     LS_REAL upper_previous)
{
    return (lower_next - lower_previous) + (upper_next - upper_previous);
}

/* F but for the stop at edges. data: -alpha D; beta: 1 - alpha. */
LS_INLINE LS_REAL LS_NAME(ls_speed)(LS_REAL data, LS_REAL beta, LS_REAL kappa)
{
    return data + beta * kappa;
}

/* phi after a step of dt. u: F |grad phi|. */
LS_INLINE LS_REAL LS_NAME(ls_moved)(LS_REAL phi, LS_REAL dt, LS_REAL u)
{
    return phi + dt * u;
}

/* F |grad phi|, the gradient upwind of the front. xu: next minus this voxel;
 * xl: this minus the previous one. */
LS_INLINE LS_REAL LS_NAME(ls_motion)(LS_REAL speed, LS_REAL xu, LS_REAL xl, LS_REAL yu, LS_REAL yl,
                                     LS_REAL zu, LS_REAL zl)
{
    /* For F < 0 the min form is the max form of the differences negated. */
    const LS_REAL s = LS_SIGN(speed);
    const LS_REAL a = LS_POS(s * xu), b = LS_POS(-s * xl);
    const LS_REAL c = LS_POS(s * yu), d = LS_POS(-s * yl);
    const LS_REAL e = LS_POS(s * zu), f = LS_POS(-s * zl);

    return speed * LS_SQRT(((a * a + b * b) + (c * c + d * d)) + (e * e + f * f));
}
