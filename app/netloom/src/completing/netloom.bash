# Completions of netloom for bash. They ask netloom itself, which knows its verbs and what runs.
_netloom() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() word trimmed i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        # The cursor may stand inside the last word.
        ((i < COMP_CWORD)) || word=${trimmed:0:${#word}}
        # bash cuts words at : and =, which are parts of names here.
        if ((i > 0)) && [[ $trimmed == "$rest" ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${trimmed:${#word}}
    done

    local current=${words[${#words[@]} - 1]} breaks='' before=''
    [[ $COMP_WORDBREAKS != *=* ]] || breaks+='='
    [[ $COMP_WORDBREAKS != *:* ]] || breaks+=':'
    # What is put in replaces only what stands after the last of these.
    [[ -z $breaks ]] || before=${current%"${current##*[$breaks]}"}

    local program=${words[0]/#\~\//$HOME/}
    type -P -- "$program" >/dev/null || program=netloom
    local paths=''
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        case $word in
        :*) paths=${word#:} ;;
        *) COMPREPLY+=("${word#"$before"}") ;;
        esac
    done < <("$program" complete-words -- "${words[@]:1}" 2>/dev/null)

    local start=${current#"$before"}
    case $paths in
    files) _netloom_paths -f "$start" ;;
    folders) _netloom_paths -d "$start" ;;
    commands) _netloom_paths -c "$start" ;;
    esac
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
_netloom_paths() {
    [[ $1 == -c ]] || compopt -o filenames 2>/dev/null
    while IFS='' read -r word; do
        COMPREPLY+=("$word")
    done < <(compgen "$1" -- "$2")
}
complete -F _netloom netloom
