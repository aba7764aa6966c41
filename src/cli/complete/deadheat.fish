function __deadheat_words
    set -l found (deadheat complete -- (commandline -cp) 2>/dev/null)
    if test "$found[1]" = :files
        __fish_complete_path (commandline -ct)
    else
        string join \n -- $found
    end
end
complete -c deadheat -f -a '(__deadheat_words)'
