# SPDX-License-Identifier: LGPL-2.1-or-later
# fish completion for acnspawn(1).
#
# Commands and options come from the program itself ("acnspawn --dump-options", one per line, fields between tabs),
# so that this file does not have to know them. Pods, apps, images, networks and the like do, too ("acnspawn
# --complete KIND CURRENT WORDS...").

# What a value or a word of a KIND may be, CURRENT being there already; then the program and the words of the line.
function __acnspawn_offer -a kind current
    switch $kind
        case file
            __fish_complete_path $current
        case directory
            __fish_complete_directories $current
        case image
            $argv[3] --complete image "$current" $argv[4..-1] 2>/dev/null
            for path in (__fish_complete_path $current)
                string match -q -r '(/|\.aci)(\t|$)' -- $path; and printf '%s\n' $path
            end
        case verb
            __acnspawn_verbs (eval (string escape -- $argv[3]) --dump-options 2>/dev/null)
        case -
        case '*|*'
            string split '|' -- $kind
        case '*'
            $argv[3] --complete $kind "$current" $argv[4..-1] 2>/dev/null
    end
end

# Of what --dump-options says, the first words of all verbs.
function __acnspawn_verbs
    string replace -r -f '^(?:verb|also)\t([^\t ]+)\t[^\t]*\t([^\t]*)\t.*' '$1\t$2' -- $argv
    for group in (__acnspawn_groups $argv)
        printf '%s\t%s\n' $group (string join ', ' -- (string replace -r -f "^verb\t$group ([^\t]+)\t.*" '$1' -- $argv))
    end
end

# The first words of commands of two words.
function __acnspawn_groups
    string replace -r -f '^verb\t([^\t ]+) [^\t]+\t.*' '$1' -- $argv | sort -u
end

function __acnspawn_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -l dump ($program --dump-options 2>/dev/null)
    or return
    set -l groups (__acnspawn_groups $dump)
    set -l command $program $words[2..-1]
    set -l verb
    set -l first 1
    set -l option # whose value comes next
    set -l arguments 0

    # The verb is the first words that are neither options nor values of options.
    for word in $words[2..-1]
        if test -n "$option"
            set option
        else if test "$word" = --; and test -n "$verb"
            # The arguments of an app, which only the app knows.
            set arguments 1
        else if test "$word" = ---
            set arguments 0
        else if string match -q -r '^-.' -- $word
            set -l name (string escape --style=regex -- $word)
            set -l which (string escape --style=regex -- "$verb")
            set option (string match -r "^option\t(?:$which|-)\t(?:$name\t[^\t]*|[^\t]*\t$name)\tvalue\t.*" -- $dump)[1]
        else if test -z "$verb"
            # Or the other name of one.
            set -l name (string escape --style=regex -- $word)
            set verb (string replace -r -f "^also\t$name\t([^\t]*)\t.*" '$1' -- $dump)
            test -n "$verb"; or set verb $word
        else if contains -- "$verb" $groups
            set verb "$verb $word"
        else
            set first 0
        end
    end
    test $arguments = 1; and return

    set -l which (string escape --style=regex -- "$verb")
    if test -n "$option"
        __acnspawn_offer (string split \t -- $option)[7] "$current" $command
    else if string match -q -r '^--[^=]+=' -- $current
        set -l prefix (string match -r '^--[^=]+=' -- $current)
        set -l name (string escape --style=regex -- (string trim -r -c = -- $prefix))
        set option (string match -r "^option\t(?:$which|-)\t$name\t[^\t]*\t(?:value|optional)\t.*" -- $dump)[1]
        test -n "$option"; or return
        set -l rest (string sub -s (math (string length -- $prefix) + 1) -- $current)
        printf "%s\n" $prefix(__acnspawn_offer (string split \t -- $option)[7] "$rest" $command)
    else if string match -q -- '-*' $current
        set -l own (string match -r "^option\t(?:$which|-)\t.*" -- $dump)
        string replace -r -f '^option\t[^\t]*\t(--[^\t]*)\t[^\t]*\tvalue\t[^\t]*\t[^\t]*\t(.*)' '$1=\t$2' -- $own
        string replace -r -f '^option\t[^\t]*\t(--[^\t]*)\t[^\t]*\t(?!value\t)[^\t]*\t[^\t]*\t[^\t]*\t(.*)' '$1\t$2' -- $own
        string replace -r -f '^option\t[^\t]*\t[^\t]*\t(-[^\t-])\t[^\t]*\t[^\t]*\t[^\t]*\t(.*)' '$1\t$2' -- $own
    else if test -z "$verb"
        __acnspawn_verbs $dump
    else if contains -- "$verb" $groups
        string replace -r -f "^verb\t$verb ([^\t]+)\t[^\t]*\t([^\t]*)\t.*" '$1\t$2' -- $dump
    else if test "$verb" = cp
        # POD: or a file of the host; what is in a pod is not looked up.
        string match -q -- '*:*' $current; and return
        printf '%s:\n' ($program --complete pod "$current" $words[2..-1] 2>/dev/null)
        __fish_complete_path $current
    else
        set -l kind (string replace -r -f "^verb\t$which\t([^\t]*)\t.*" '$1' -- $dump)
        # One kind for the first word and another for the others.
        if string match -q '* *' -- $kind
            set -l kinds (string split ' ' -- $kind)
            test $first = 1; and set kind $kinds[1]; or set kind $kinds[2]
        end
        test "$verb" = run; and __acnspawn_offer image "$current" $command
        test -n "$kind"; and __acnspawn_offer $kind "$current" $command
    end
end

complete -c acnspawn -f -a '(__acnspawn_complete)'
