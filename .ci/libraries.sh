#!/bin/sh
# Builds zlib, libdeflate, libpng, jansson, libjpeg-turbo, libtiff and expat, from Debian's source
# packages, as static libraries for another system than this one. configure finds them by
# CPPFLAGS=-IPREFIX/include LDFLAGS=-LPREFIX/lib.
#
#   CC=... AR=... [CFLAGS=...] sh .ci/libraries.sh PREFIX
#
# The sources stay in build/sources. Exit code 75: they could not be fetched.
set -eu
cd "$(dirname "$0")/.."
prefix=${1:?usage: libraries.sh PREFIX}
: "${CC:?}" "${AR:?}"
sources=$PWD/build/sources
apt=$PWD/build/apt
packages="zlib libdeflate libpng1.6 jansson libjpeg-turbo tiff expat"
. .ci/apt.sh

# Downloads the source packages into build/sources.
# shellcheck disable=SC2086  # $packages is a list of words
fetch() {
    mkdir -p "$apt" "$sources.new"
    archives > "$apt/sources.list"
    own_apt update
    if ! (cd "$sources.new" && own_apt source $packages) > "$apt/log" 2>&1; then
        # A mirror may have an update's binary packages without its source packages.
        echo "libraries: the newest sources are not available; using those of the release itself" >&2
        grep -v -e '-updates ' -e '-security ' "$apt/all.list" > "$apt/sources.list"
        own_apt update
        (cd "$sources.new" && own_apt source $packages)
    fi
    # Deletes a #define by which MinGW builds would call Windows' old printf instead of MinGW's C99
    # printf.
    sed -i '/#define v*snprintf  *_v*snprintf$/d' "$sources.new"/jansson-*/src/jansson_private.h
    rm -rf "$sources"
    mv "$sources.new" "$sources"
}

# compile LIBRARY FOLDER FLAG... -- FILE...: compiles the FILEs (without .c) in FOLDER with the
# FLAGs into LIBRARY.
compile() {
    library=$1 folder=$2
    shift 2
    flags=
    while [ "$1" != -- ]; do
        flags="$flags $1"
        shift
    done
    shift
    mkdir -p "$prefix/obj/$library"
    # Runs a compiler for each file, as many at a time as there are processors. -ffile-prefix-map
    # keeps the path of build/sources out of the programs.
    for name in "$@"; do
        object=$prefix/obj/$library/$(echo "$name" | tr / -).o
        echo "$CC -w -O2 -ffile-prefix-map=$sources/= ${CFLAGS:-} -I$prefix/include -I$folder $flags -c $folder/$name.c -o $object"
    done | xargs -P "$(nproc)" -I '{}' sh -c '{}'
    mkdir -p "$prefix/lib"
    rm -f "$prefix/lib/$library"
    $AR rcs "$prefix/lib/$library" "$prefix/obj/$library"/*.o
}

# Two platforms may be built at the same time, and share build/sources.
exec 9> build/sources.lock
flock 9
fetching=
trap '[ -z "$fetching" ] || exit 75' EXIT        # tells a failed download from a failed build
[ -d "$(echo "$sources"/libdeflate-*/)" ] || { rm -rf "$sources.new"; fetching=yes; fetch; fetching=; }
flock -u 9
mkdir -p "$prefix/include"
z=$(echo "$sources"/zlib-*/) png=$(echo "$sources"/libpng1.6-*/) jansson=$(echo "$sources"/jansson-*/)
jpeg=$(echo "$sources"/libjpeg-turbo-*/) tiff=$(echo "$sources"/tiff-*/)libtiff/ expat=$(echo "$sources"/expat-*/)expat/lib/
inflate=$(echo "$sources"/libdeflate-*/)
# texcell loads OpenCL at run time, so only OpenCL's headers are needed, which are the same on every
# system.
cp -r /usr/include/CL "$prefix/include"
cp "$z"zlib.h "$z"zconf.h "$png"png.h "$png"pngconf.h "$jansson"src/jansson.h "$prefix/include"
cp "$png"scripts/pnglibconf.h.prebuilt "$prefix/include/pnglibconf.h"
# jansson_config.h as jansson's configure writes it for a C99 compiler with GCC's builtins.
sed -e 's/@json_inline@/inline/; s/@json_have_long_long@/1/; s/@json_have_localeconv@/1/' \
    -e 's/@json_have_atomic_builtins@/1/; s/@json_have_sync_builtins@/1/' \
    "$jansson"src/jansson_config.h.in > "$prefix/include/jansson_config.h"
for name in HAVE_STDINT_H HAVE_FCNTL_H HAVE_UNISTD_H HAVE_SYS_STAT_H HAVE_SYS_TIME_H HAVE_SYS_TYPES_H HAVE_OPEN \
    HAVE_CLOSE HAVE_READ HAVE_GETTIMEOFDAY HAVE_GETPID HAVE_ATOMIC_BUILTINS USE_URANDOM USE_WINDOWS_CRYPTOAPI; do
    echo "#define $name 1"
done > "$prefix/include/jansson_private_config.h"
echo '#define INITIAL_HASHTABLE_ORDER 3' >> "$prefix/include/jansson_private_config.h"
compile libz.a "$z" -DHAVE_UNISTD_H -- adler32 compress crc32 deflate gzclose gzlib gzread gzwrite infback inffast inflate inftrees \
    trees uncompr zutil
cp "$inflate"libdeflate.h "$prefix/include"
compile libdeflate.a "$inflate"lib -- adler32 crc32 deflate_decompress utils zlib_decompress arm/cpu_features x86/cpu_features
compile libpng16.a "$png" -DPNG_ARM_NEON_OPT=0 -- png pngerror pngget pngmem pngpread pngread pngrio pngrtran pngrutil pngset pngtrans \
    pngwio pngwrite pngwtran pngwutil
compile libjansson.a "$jansson"src -DHAVE_CONFIG_H -- dump error hashtable hashtable_seed load memory \
    pack_unpack strbuffer strconv utf value version

# define_in FILE NAME[=VALUE]...: prints FILE with each "#undef NAME" made "#define NAME VALUE"
# (default 1), as configure would.
define_in() {
    file=$1
    shift
    for name in "$@"; do
        case $name in
            *=*) printf 's|^#undef %s$|#define %s %s|\n' "${name%%=*}" "${name%%=*}" "${name#*=}" ;;
            *) printf 's|^#undef %s$|#define %s 1|\n' "$name" "$name" ;;
        esac
    done | sed -f - "$file"
}
sed -e 's/@JPEG_LIB_VERSION@/62/; s/@BITS_IN_JSAMPLE@/8/; s/@VERSION@/2.1/; s/@LIBJPEG_TURBO_VERSION_NUMBER@/2001000/' \
    -e '/WITH_SIMD/d; /RIGHT_SHIFT/d; s/^#cmakedefine/#define/' "$jpeg"jconfig.h.in > "$prefix/include/jconfig.h"
sed -e 's/@INLINE@/inline/; s/@THREAD_LOCAL@/_Thread_local/; s/@SIZE_T@/8/; s/@[A-Z_]*@//' -e '/^#cmakedefine/d' \
    "$jpeg"jconfigint.h.in > "$prefix/include/jconfigint.h"
sed 's/@[A-Z_]*@//' "$jpeg"jversion.h.in > "$prefix/include/jversion.h"
cp "$jpeg"jpeglib.h "$jpeg"jmorecfg.h "$jpeg"jerror.h "$prefix/include"
compile libjpeg.a "$jpeg" -- jaricom jcapimin jcapistd jcarith jccoefct jccolor jcdctmgr jchuff jcicc jcinit jcmainct jcmarker jcmaster \
    jcomapi jcparam jcphuff jcprepct jcsample jctrans jdapimin jdapistd jdarith jdatadst jdatasrc jdcoefct jdcolor jddctmgr jdhuff \
    jdicc jdinput jdmainct jdmarker jdmaster jdmerge jdphuff jdpostct jdsample jdtrans jerror jfdctflt jfdctfst jfdctint jidctflt \
    jidctfst jidctint jidctred jmemmgr jmemnobs jquant1 jquant2 jsimd_none jutils
define_in "$tiff"tiffconf.h.in TIFF_INT8_T=int8_t TIFF_INT16_T=int16_t TIFF_INT32_T=int32_t TIFF_INT64_T=int64_t \
    TIFF_UINT8_T=uint8_t TIFF_UINT16_T=uint16_t TIFF_UINT32_T=uint32_t TIFF_UINT64_T=uint64_t TIFF_SSIZE_T=int64_t HAVE_IEEEFP \
    HOST_FILLORDER=FILLORDER_LSB2MSB HOST_BIGENDIAN=0 CCITT_SUPPORT JPEG_SUPPORT LOGLUV_SUPPORT LZW_SUPPORT NEXT_SUPPORT \
    OJPEG_SUPPORT PACKBITS_SUPPORT PIXARLOG_SUPPORT THUNDER_SUPPORT ZIP_SUPPORT STRIPCHOP_DEFAULT=TIFF_STRIPCHOP SUBIFD_SUPPORT \
    DEFAULT_EXTRASAMPLE_AS_ALPHA CHECK_JPEG_YCBCR_SUBSAMPLING MDI_SUPPORT > "$prefix/include/tiffconf.h"
# tif_win32 calls Windows' own file functions, tif_unix POSIX'.
case $CC in
    *mingw*) files=USE_WIN32_FILEIO system=tif_win32 ;;
    *) files=HAVE_MMAP system=tif_unix ;;
esac
define_in "$tiff"tif_config.h.in HAVE_ASSERT_H HAVE_FCNTL_H HAVE_SNPRINTF HAVE_SYS_TYPES_H HAVE_UNISTD_H SIZEOF_SIZE_T=8 \
    STRIP_SIZE_DEFAULT=8192 TIFF_MAX_DIR_COUNT=1048576 _FILE_OFFSET_BITS=64 "$files" > "$prefix/include/tif_config.h"
cp "$tiff"tiff.h "$tiff"tiffio.h "$tiff"tiffvers.h "$prefix/include"
compile libtiff.a "$tiff" -- tif_aux tif_close tif_codec tif_color tif_compress tif_dir tif_dirinfo tif_dirread tif_dirwrite tif_dumpmode \
    tif_error tif_extension tif_fax3 tif_fax3sm tif_flush tif_getimage tif_hash_set tif_jpeg tif_luv tif_lzw tif_next tif_ojpeg tif_open \
    tif_packbits tif_pixarlog tif_predict tif_print tif_read tif_strip tif_swab tif_thunder tif_tile tif_version tif_warning tif_write \
    tif_zip "$system"
cp "$expat"expat.h "$expat"expat_external.h "$prefix/include"
for name in "XML_NS 1" "XML_DTD 1" XML_STATIC "XML_CONTEXT_BYTES 1024" "BYTEORDER 1234" XML_DEV_URANDOM HAVE_UNISTD_H HAVE_FCNTL_H; do
    echo "#define $name"
done > "$prefix/include/expat_config.h"
compile libexpat.a "$expat" -DXML_STATIC -- xmlparse xmlrole xmltok
cp "$prefix/lib/libpng16.a" "$prefix/lib/libpng.a"
