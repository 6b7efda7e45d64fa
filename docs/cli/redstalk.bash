_redstalk() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    printf -v line %q "${line%%$'\t'*}"
    COMPREPLY+=("$line")
  done < <(redstalk complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _redstalk redstalk
