function __redstalk_complete
  set -l words (commandline -opc) (commandline -ct)
  redstalk complete -- $words[2..-1] 2>/dev/null
end
complete -c redstalk -f -a '(__redstalk_complete)'
complete -c redstalk -n '__fish_seen_subcommand_from import' -F
