# Completions of netloom for fish. They ask netloom itself, which knows its verbs and what runs.
function __netloom_words
    set -l given (commandline --current-process --tokenize --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l program (string replace --regex '^~/' "$HOME/" -- $given[1])
    type --quiet --force-path -- $program; or set program netloom
    for line in ($program complete-words -- $given[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path $current
            case ':folders'
                __fish_complete_directories $current
            case ':commands'
                complete --do-complete "$current"
            case '*'
                printf '%s\n' $line
        end
    end
end
complete --command netloom --no-files --arguments '(__netloom_words)'
