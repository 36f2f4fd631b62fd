#!/bin/sh
# Makes a C file that holds a kernel's source: embed.sh ROOT KERNEL.cl OUT.c [CLANG]
#
# A device's compiler sees one text and no files, so #include "..." of the
# project's own headers (looked up under ROOT, then beside the including file)
# is resolved here, each header once; #line keeps the names and numbers of the
# real files in messages. #include <...> stays: headers that are also compiled
# as C have it in a part that OpenCL C skips.
#
# With CLANG the text is compiled first, as it stands and once more for each
# comment line of the kernel that begins with "//! check:" with the flags that
# follow ("//! check: -DLEVELS=16 -DWIDE").
set -eu
export LC_ALL=C
root=$1
source=$2
out=$3
clang=${4:-}
name=$(basename "$source" .cl)
flat=$out.cl
trap 'rm -f "$flat" "$out.tmp"' EXIT

awk -v root="$root" '
function fail(message) { print "embed.sh: " message > "/dev/stderr"; failed = 1; exit 1 }
function readable(path,    line, answer) {
    answer = (getline line < path)
    close(path)
    return answer >= 0
}
function shown(path) {
    return index(path, root "/") == 1 ? substr(path, length(root) + 2) : path
}
function flatten(path,    line, number, wanted, found, folder, status) {
    seen[path] = 1
    folder = path
    if (!sub("/[^/]*$", "", folder)) folder = "."
    printf "#line 1 \"%s\"\n", shown(path)
    while ((status = (getline line < path)) > 0) {
        number++
        sub("\r$", "", line)
        if (line !~ /^[ \t]*#[ \t]*include[ \t]*"/) { print line; continue }
        wanted = line
        sub(/^[^"]*"/, "", wanted)
        sub(/".*$/, "", wanted)
        found = root "/" wanted
        if (!readable(found)) found = folder "/" wanted
        if (!readable(found)) fail(path ":" number ": \"" wanted "\" not found")
        if (!(found in seen)) flatten(found)
        printf "#line %d \"%s\"\n", number + 1, shown(path)
    }
    if (status < 0) fail(path ": cannot be read")
    close(path)
}
BEGIN { flatten(ARGV[1]); exit failed }
' "$source" > "$flat"

if [ -n "$clang" ]; then
    check() {
        # shellcheck disable=SC2086 # flags are words
        $clang -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -target spir64 -D__OPENCL_VERSION__=120 \
            -Wall -Wno-unused-function -Werror -fsyntax-only $1 "$flat"
    }
    check ""
    sed -n 's|^//! check:||p' "$source" | while read -r flags; do check "$flags"; done
fi

awk -v name="$name" '
BEGIN {
    printf "/* Made from opencl/kernels/%s.cl by opencl/embed.sh. */\n", name
    print "#include \"opencl/program.h\"\n"
    print "static const char *const lines[] = {"
}
{
    gsub(/\\/, "\\\\&")
    gsub(/"/, "\\\"")
    gsub(/\t/, "\\t")
    # The longest string that every C compiler must take has 4095 characters.
    if (length($0) > 4000) {
        print "embed.sh: " name ".cl: a line of more than 4000 characters" > "/dev/stderr"
        exit 1
    }
    printf "    \"%s\\n\",\n", $0
}
END {
    print "};\n"
    printf "extern const ocl_source ocl_source_%s;\n", name
    printf "const ocl_source ocl_source_%s = {\"%s.cl\", lines, sizeof lines / sizeof lines[0]};\n", name, name
}' "$flat" > "$out.tmp"
mv "$out.tmp" "$out"
