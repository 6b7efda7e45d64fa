module redstalk/clients/go

go 1.26.0
