_redstalk() {
  local cur=${COMP_WORDS[COMP_CWORD]} line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("${line%%$'\t'*}"); done < <(redstalk complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$cur"))
}
complete -F _redstalk redstalk
