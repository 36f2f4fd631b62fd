/* hold FILE SECONDS share|alone: keeps a file open for a while. Prints "open" once it is open. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

int main(int argc, char **argv)
{
    const DWORD share = argc == 4 && strcmp(argv[3], "alone") == 0
                            ? 0
                            : FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    const HANDLE file =
        argc == 4 ? CreateFileA(argv[1], GENERIC_READ, share, NULL, OPEN_EXISTING, 0, NULL)
                  : INVALID_HANDLE_VALUE;

    if (file == INVALID_HANDLE_VALUE)
        return 1;
    puts("open");
    fflush(stdout);
    Sleep((DWORD)(atof(argv[2]) * 1000));
    return 0;
}
