/*
 * levelset: the arithmetic of an iteration, written once for a single voxel and for a vector of
 * voxels. It consists of IEEE single-precision sums, products, divisions and square roots in a
 * fixed order, none of them fused. This file is included once for each type, after defining
 *
 *   LS_REAL        the type: float, or a vector of floats
 *   LS_NAME(name)  the name of the function for this type
 *   LS_INLINE      the specifiers of each function
 *   LS_C(c)        the constant c in every lane
 *   LS_SQRT(a)     correctly rounded square root
 *   LS_POS(a)      a where a > 0, else 0
 *   LS_SIGN(a)     1 where a > 0, else -1
 *
 * In names, u and l mark the upper and the lower one of two values along an axis. Every difference
 * across the border of the picture is 0. phi, F, D, U, kappa and alpha are those of levelset.h.
 */

/* The unit normal is grad phi / |grad phi|. Returns its component along an axis, on the face
 * between two voxels that are adjacent along this axis. d: phi of the upper minus phi of the lower
 * voxel. c, e: ls_across along each of the other two axes; this is four times the mean of the two
 * voxels' central differences. */
LS_INLINE LS_REAL LS_NAME(ls_face)(LS_REAL d, LS_REAL c, LS_REAL e)
{
    const LS_REAL m = c * LS_C(0.25f), n = e * LS_C(0.25f);

    return d / LS_SQRT((LS_C(LS_EPS) + d * d) + (m * m + n * n));
}

/* The curvature kappa: half the divergence of the normals on the voxel's six faces. */
LS_INLINE LS_REAL LS_NAME(ls_curvature)(LS_REAL xu, LS_REAL xl, LS_REAL yu, LS_REAL yl, LS_REAL zu,
                                        LS_REAL zl)
{
    return LS_C(0.5f) * (((xu - xl) + (yu - yl)) + (zu - zl));
}

/* Returns the argument c or e of ls_face: phi of the next voxel minus phi of the previous voxel
 * along another axis, summed over the lower and the upper voxel at the face. */
LS_INLINE LS_REAL LS_NAME(ls_across)(LS_REAL lower_next, LS_REAL lower_previous, LS_REAL upper_next,
                                     LS_REAL upper_previous)
{
    return (lower_next - lower_previous) + (upper_next - upper_previous);
}

/* F without the factor `stop`. data: -alpha D; beta: 1 - alpha. */
LS_INLINE LS_REAL LS_NAME(ls_speed)(LS_REAL data, LS_REAL beta, LS_REAL kappa)
{
    return data + beta * kappa;
}

/* phi after a time step dt. u: U. */
LS_INLINE LS_REAL LS_NAME(ls_next_phi)(LS_REAL phi, LS_REAL dt, LS_REAL u)
{
    return phi + dt * u;
}

/* U = F |grad phi|, with the gradient's upwind differences. speed: F. xu: phi of the next voxel
 * along x minus phi of this voxel; xl: phi of this voxel minus phi of the previous one; yu, yl, zu,
 * zl: the same along y and z. */
LS_INLINE LS_REAL LS_NAME(ls_motion)(LS_REAL speed, LS_REAL xu, LS_REAL xl, LS_REAL yu, LS_REAL yl,
                                     LS_REAL zu, LS_REAL zl)
{
    /* The formula for F < 0 is the one for F > 0 with all differences negated. */
    const LS_REAL s = LS_SIGN(speed);
    const LS_REAL a = LS_POS(s * xu), b = LS_POS(-s * xl);
    const LS_REAL c = LS_POS(s * yu), d = LS_POS(-s * yl);
    const LS_REAL e = LS_POS(s * zu), f = LS_POS(-s * zl);

    return speed * LS_SQRT(((a * a + b * b) + (c * c + d * d)) + (e * e + f * f));
}
