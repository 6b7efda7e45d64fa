package worker_test

import (
	"testing"

	"redstalk/clients/go/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }
