#!/bin/sh
# Stands in for systemctl and service where no systemd runs:
#   systemctl start|stop|restart|reload|status|enable|disable|is-active UNIT...    service NAME ACTION
state=/run/netloom-import/units
mkdir -p "$state"

case ${0##*/} in
service)
    action=${2:-status}
    set -- "$1"
    ;;
*)
    now=
    action=
    units=
    for word; do
        case $word in
        --now) now=yes ;;
        -*) ;;
        *) if [ -z "$action" ]; then action=$word; else units="$units $word"; fi ;;
        esac
    done
    case $action:$now in
    enable:yes) action=start ;;
    disable:yes) action=stop ;;
    esac
    # shellcheck disable=SC2086
    set -- $units
    ;;
esac

# The commands of a key of a unit's file, without the signs that systemd puts before them.
commands() {
    sed -n "s/^$2=[-@:+!]*//p" "$1"
}

unit_file() {
    for folder in /etc/systemd/system /lib/systemd/system /usr/lib/systemd/system; do
        if [ -f "$folder/$1.service" ]; then
            echo "$folder/$1.service"
            return
        fi
    done
}

by_unit() {
    file=$1 name=$2 action=$3
    case $action in
    start)
        kind=$(sed -n 's/^Type=//p' "$file")
        for environment in $(sed -n 's/^EnvironmentFile=-\{0,1\}//p' "$file"); do
            # shellcheck disable=SC1090
            if [ -f "$environment" ]; then . "$environment"; fi
        done
        folder=$(sed -n 's/^RuntimeDirectory=//p' "$file")
        for each in $folder; do mkdir -p "/run/$each"; done
        commands "$file" ExecStartPre | while read -r command; do eval "$command"; done
        command=$(commands "$file" ExecStart | head -n 1)
        case $kind in
        forking | oneshot) eval "$command" ;;
        *)
            eval "setsid $command </dev/null >>\"$state/$name.log\" 2>&1 &"
            echo $! >"$state/$name.pid"
            ;;
        esac
        ;;
    stop)
        command=$(commands "$file" ExecStop | head -n 1)
        if [ -n "$command" ]; then
            eval "$command"
        elif [ -f "$state/$name.pid" ]; then
            kill "$(cat "$state/$name.pid")"
        fi
        rm -f "$state/$name.pid"
        ;;
    reload)
        command=$(commands "$file" ExecReload | head -n 1)
        if [ -n "$command" ]; then eval "$command"; fi
        ;;
    status | is-active)
        [ -f "$state/$name.pid" ] && kill -0 "$(cat "$state/$name.pid")" && echo active
        ;;
    esac
}

one() {
    name=${1%.service}
    case $2 in
    enable | disable | daemon-reload | mask | unmask | is-enabled | reset-failed) return 0 ;;
    restart)
        one "$name" stop
        one "$name" start
        return
        ;;
    esac
    if [ "$name" = frr ] && [ -x /usr/lib/frr/frrinit.sh ]; then
        /usr/lib/frr/frrinit.sh "$2"
    elif [ -x "/etc/init.d/$name" ]; then
        action=$2
        [ "$action" != is-active ] || action=status
        "/etc/init.d/$name" "$action"
    else
        file=$(unit_file "$name")
        if [ -z "$file" ]; then
            echo "$name: no such service on this machine" >&2
            return 5
        fi
        by_unit "$file" "$name" "$2"
    fi
}

code=0
for unit; do
    one "$unit" "$action" || code=$?
done
exit "$code"
