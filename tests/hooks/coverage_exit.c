/*
 * Writes the coverage data before _exit, by which tasks end: in a coverage build (make coverage)
 * the linker's --wrap replaces _exit by this function.
 */
void __gcov_dump(void);
void __real__exit(int code);
void __wrap__exit(int code);

void __wrap__exit(int code)
{
    __gcov_dump();
    __real__exit(code);
}
