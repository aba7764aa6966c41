_deadheat() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} found breaks= word
    found=($("$1" complete -- "$line" 2>/dev/null | cut -f1))
    COMPREPLY=()
    if [[ ${found[0]} == :files ]]; then
        compopt -o default
        return
    fi
    word=${line##* }
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+==
    [[ $breaks ]] && word=${word%"${word##*[$breaks]}"} || word=
    COMPREPLY=("${found[@]#"$word"}")
    [[ ${found[0]} == *[:=,] ]] && compopt -o nospace
}
complete -F _deadheat deadheat
