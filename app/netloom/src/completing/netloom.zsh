#compdef netloom
# Completions of netloom for zsh. They ask netloom itself, which knows its verbs and what runs.
_netloom() {
    local -a given plain open
    local line word help paths program=${(Q)words[1]}
    program=${program/#\~\//$HOME/}
    whence -p -- "$program" >/dev/null || program=netloom
    given=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    for line in "${(@f)$("$program" complete-words -- "${given[@]}" 2>/dev/null)}"; do
        word=${line%%$'\t'*}
        help=${${line#$word}#$'\t'}
        case $word in
        '') ;;
        :*) paths=${word#:} ;;
        *[=:]) open+=("${word//:/\\:}:$help") ;;
        *) plain+=("${word//:/\\:}:$help") ;;
        esac
    done
    (($#plain)) && _describe -V netloom plain
    (($#open)) && _describe -V netloom open -S ''
    case $paths in
    files) _files ;;
    folders) _files -/ ;;
    commands) _command_names -e ;;
    esac
}
if [[ ${funcstack[1]} == _netloom ]]; then
    _netloom "$@"
else
    compdef _netloom netloom
fi
