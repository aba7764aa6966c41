#compdef deadheat
_deadheat() {
    local line word tab=$'\t'
    local -a found open opens whole wholes
    found=("${(@f)$(${words[1]} complete -- "$LBUFFER" 2>/dev/null)}")
    if [[ $found[1] == :files ]]; then
        _files
        return
    fi
    for line in $found; do
        word=${line%%$tab*}
        if [[ $word == *[:=,] ]]; then
            open+=("$word")
            opens+=("${line/$tab/  }")
        elif [[ -n $word ]]; then
            whole+=("$word")
            wholes+=("${line/$tab/  }")
        fi
    done
    (( $#open )) && compadd -S '' -l -d opens -a open
    (( $#whole )) && compadd -l -d wholes -a whole
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _deadheat "$@"
else
    compdef _deadheat deadheat
fi
