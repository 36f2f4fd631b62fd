# Makes a manual page (man(7)) of what a program prints for --help, and behind it, each after a line
# "@VERB", what it prints for the help of its verbs.
#   -v name=texcell -v version=1.0.0 -v day=2026-11-22

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\&" text
    return text
}

function block(macro) {          # "": text, ".nf": lines as they are
    if (literal && macro != ".nf")
        print ".fi\n.RE"
    if (!literal && macro == ".nf")
        print ".RS 2\n.nf"
    literal = macro == ".nf"
}

# Prints running text in short lines.
function say(text,    words, n, i, row) {
    n = split(text, words, " ")
    for (i = 1; i <= n; i++) {
        if (row != "" && length(row) + length(words[i]) > 68) {
            print escaped(row)
            row = ""
        }
        row = row (row == "" ? "" : " ") words[i]
    }
    if (row != "")
        print escaped(row)
}

# A term and what it means: a verb at the margin, or what is moved in by two; two blanks stand between them, or an
# option's placeholder ends the term.
function is_entry(text) {
    return text ~ /^[a-z-]+   *[^ ]/ || text ~ /^  [^ ].*[^ ]   *[^ ]/ || text ~ /^  --?[a-z]/
}

function entry(text,    at) {
    sub(/^ */, "", text)
    if (match(text, /   */))
        at = RSTART
    else {
        match(text, /^[^ ]+( [A-Z][^ a-z]*| --[a-z][^ ]*)*/)
        at = RLENGTH + 1
    }
    block("")
    print ".TP\n.B " escaped(substr(text, 1, at - 1))
    say(substr(text, at))
    within = "entry"
}

BEGIN {
    about["texcell"] = "compute the features of images, with the same bits on every computer"
    about["texcell-wu"] = "pack images for texcell, and look at what it found"
    about["texcell-validate"] = "check and compare results of texcell"
    about["texcell-assimilate"] = "collect results of texcell in a data set"
    about["texcell-deploy"] = "install texcell in a BOINC project"
    about["texcell-submit"] = "give pictures to a BOINC project that runs texcell"
    about["texcell-again"] = "have work units of a BOINC project computed again"
    about["texcell-watch"] = "look whether a BOINC project that runs texcell is well"
    about["texcell-backup"] = "save a BOINC project that runs texcell, and restore it"
    about["texcell_graphics"] = "show what texcell does, in a window or as a screensaver"
    printf ".TH %s 1 %s \"texcell %s\"\n", toupper(name), day, version
    print ".SH NAME\n" escaped(name) " \\- " about[name]
    heading = ".SH SYNOPSIS"
}

/^@/ {
    block("")
    if (!verbs++)
        print ".SH COMMANDS"
    heading = ".SS " name " " substr($0, 2)
    within = ""
    next
}

/^usage: / {
    print heading
    within = "usage"
}

within == "usage" && NF > 0 {
    block(".nf")
    print escaped(substr($0, 8))
    next
}

NF == 0 {
    block("")
    if (within == "usage" && !verbs)
        print ".SH DESCRIPTION"
    fresh = !(within == "usage")
    within = "text"
    next
}

/^Exit codes: / {
    block("")
    print ".SH EXIT STATUS"
    sub(/^Exit codes: /, "")
    fresh = 0
    within = "text"
}

is_entry($0) {
    entry($0)
    fresh = 0
    next
}

/^    / && within != "entry" {
    block(".nf")
    print escaped(substr($0, 5))
    next
}

{
    block("")
    if (/^[^ ]/ && within == "entry" || fresh)
        print ".PP"
    if (/^[^ ]/)
        within = "text"
    say($0)
    fresh = 0
}

END { block("") }
