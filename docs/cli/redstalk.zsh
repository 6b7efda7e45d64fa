#compdef redstalk
_redstalk() {
  local -a found
  local line
  while IFS= read -r line; do
    line=${line//:/\\:}
    found+=("${line/$'\t'/:}")
  done < <(redstalk complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#found )); then _describe 'redstalk' found; else _files; fi
}
compdef _redstalk redstalk
