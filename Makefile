# redstalk: make without a target lists the targets.

GO      ?= go
STORE   ?= embedded:./redstalk-data
LISTEN  ?= 127.0.0.1
PORT    ?= 11300
HTTP    ?= 127.0.0.1:11380
VERSION ?= 0.3.0
CONTAINER ?= docker
FUZZTIME ?= 30s
CRASH_ROUNDS ?= 50
CHAOS_ROUNDS ?= 30
CHAOS_SEED ?= 0
CRASH_SEED ?= 0
GROWTH ?= 10s
ATTACKS ?=
CONSOLE ?=
COMMANDS ?= 200000
SHOP_FOR ?= 10m
BENCH_LOADS ?= 50c,50c-p16,50c-p32-put,500c,1c,tubes10k,50c-10k,50c-100k,50c-1m

# Everything but the race detector's programs is compiled in the same way, as in the packages, so that a
# new machine compiles each library twice and not five times: what tests run, vet, staticcheck, make build.
export CGO_ENABLED = 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
# The race detector needs cgo. The only C library, zstd, compiles in a quarter of the time without optimization.
RACE = CGO_ENABLED=1 CGO_CFLAGS=-O0 $(GO) test -race -vet=off -ldflags='-s -w'

# What the tests need beside Go, from apt: the real beanstalkd decides what is correct
# behaviour, the Redis engine is tested on a real redis-server, proxies are tested with nginx, and the race
# detector needs a C compiler.
APT_TOOLS = redis-server beanstalkd nginx gcc postgresql mariadb-server

# What clients/php is tested with.
PHP_TOOLS = phpunit composer php-laravel-framework php-symfony-framework-bundle php-symfony-messenger \
  php-symfony-redis-messenger php-symfony-yaml php-sqlite3 php-redis

# And the other clients.
PYTHON_TOOLS = python3 python3-mypy python3-pytest openssl
TYPESCRIPT_TOOLS = nodejs npm openssl
RUBY_TOOLS = ruby ruby-activejob ruby-minitest openssl

# What their packages are built and installed with.
PACKAGE_TOOLS = python3-mypy python3-venv python3-build python3-setuptools python3-wheel nodejs npm composer php-zip ruby bundler

# Clients that others wrote: what they run on, and those that Debian has. Old PHP frameworks are in old suites.
CLIENT_TOOLS = php-cli php-pda-pheanstalk ruby ruby-beaneater netcat-openbsd bash nodejs npm
SUITES = forky trixie bookworm
CHROOTS ?= bin/chroots

.DEFAULT_GOAL := help

.PHONY: help build run quick test test-long test-clients test-prometheus test-kubernetes test-kubernetes-server test-kubernetes-update deps test-console test-runtimes screenshots bench bench-access bench-floor bench-cluster attack crash chaos oracle record fuzz check clean release deb image test-packages release-check

help: ## print this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

# Stripped, as in the packages, so that what is measured and tested is what people install.
build: ## build bin/redstalkd and the tools beside it
	$(GO) build -ldflags "-s -w -X main.Version=$(VERSION)" -o bin/ ./cmd/...
	$(GO) build -o bin/stalkbench ./tools/bench
	$(GO) build -o bin/transcript ./tools/conformance/play

run: build ## build and serve on PORT=11300 of 127.0.0.1, and HTTP=127.0.0.1:11380; STORE=redis://127.0.0.1:6379/0 serves from Redis
	bin/redstalkd -V -l $(LISTEN) -p $(PORT) --http '$(HTTP)' --store '$(STORE)'

# Everything but the durable engines, whole programs and tools. What has not changed is not tested again.
quick: ## an answer within a minute: the rules, the protocol, the server, the API and the memory engine, without -race
	$(GO) test -short $$($(GO) list ./cmd/... ./protocol/... ./server/... ./storage/... ./tube/... | grep -vE '/(cmd/redstalkd|protocol/outbox|storage/embedded|storage/redis)$$')
	$(GO) test -short -run '^TestMemory$$' ./storage/embedded

# Most packages wait more than they compute, so several are tested at the same time, and the
# slowest start first. Test programs are linked without debug information, which takes half the
# time. go vet runs in make check.
SHORT_PARTS = short-race short-plain short-clients
.PHONY: $(SHORT_PARTS)
test: deps ## run the tests that fit into minutes, installing what they need
	@echo "All packages, with -race unless they have no goroutines, on the memory and the embedded engine, a real Redis and the real beanstalkd; and clients/go."
	@echo "Not run: what takes longer (make test-long), the console (make test-console), other clients (make test-php test-python test-typescript test-ruby)."
	$(MAKE) -j 3 $(SHORT_PARTS)

# What has no goroutines cannot have a race. Without the race detector its tests take a third of the time.
PLAIN = protocol storage/redact storage/redis/schema tools/checks tools/deploy tools/packages/notices tools/vulns tube tube/field
short-race:
	$(RACE) -short -p 4 -parallel 6 -timeout 40m ./storage/redis ./cmd/redstalkd ./server ./storage/embedded \
	  $$($(GO) list ./... | grep -vxE "$$($(GO) list -m)/($(subst $() ,|,$(PLAIN)))")

short-plain:
	$(GO) test -tags poison -short -vet=off -parallel 6 -timeout 40m -ldflags='-s -w' $(addprefix ./,$(PLAIN))

short-clients:
	cd clients/go && $(RACE) -short -timeout 40m ./...
	cd clients/go/otel && $(RACE) -short -timeout 40m ./...

# Random tests and those of whole programs judge replies and data, and run at their length without the race
# detector, which makes them five times slower: make test runs most of them with it, shorter. Released memory
# of bodies is overwritten by -tags poison. Tests of goroutines run at their length with it, too.
LONG = $(GO) test -tags poison -vet=off -count=1 -ldflags='-s -w' -timeout 30m
LONG_RACE = $(RACE) -count=1 -timeout 30m
# The test program of cmd/redstalkd, and the server that it tests, are linked once for all lines.
LONG_REDSTALKD = cd cmd/redstalkd && ../../bin/redstalkd.test -program $(CURDIR)/bin/poison/redstalkd -test.timeout 30m

# One part uses less than two processors, so several run at a time, and each prints its output when it ends.
LONG_PARTS = long-chaos long-programs long-redis long-embedded long-server long-kills long-clients long-pairs long-signon test-php test-python test-typescript test-ruby test-kubernetes test-kubernetes-update
.PHONY: $(LONG_PARTS) bin/redstalkd.test
test-long: deps ## run the tests that make test leaves out, and the random ones at more length
	@sh tools/deps.sh $(PHP_TOOLS) $(PYTHON_TOOLS) $(TYPESCRIPT_TOOLS) $(RUBY_TOOLS) # now, as apt runs only once at a time
	$(MAKE) -j 3 --output-sync $(LONG_PARTS)

bin/redstalkd.test:
	$(LONG) -c -o bin/redstalkd.test ./cmd/redstalkd
	$(GO) build -tags poison -ldflags '-s -w' -o bin/poison/ ./cmd/redstalkd

long-embedded:
	$(LONG) -run '^(TestMemory|TestJournal|TestPowerCut|TestDamagedBackup|TestBackupWalk)$$' ./storage/embedded -args -histories 10 -walks 5 -large-segments 4
	$(LONG) -run '^TestJournalAlwaysReopened$$' ./storage/embedded -args -histories 8
	$(LONG) -run '^(TestFaults|TestFrames|TestDamagedTable|TestCutOrRemoved|TestFsckDamagedFiles|TestFsckBeyondRepair)$$' ./storage/embedded -args -faults 3
	$(LONG_RACE) -run '^(TestStress|TestStressAndCrash|TestManyBodiesAreNotHeld|TestTasksBehindTheTables|TestTasksGoOn|TestWrittenWhileHeavyIsSynced|TestClosedWhileSyncing)$$' ./storage/embedded -args -stress 3s
	$(LONG) -run '^TestPowerCut$$' ./storage/embedded/wal -args -histories 10

long-redis:
	$(LONG) -run '^(TestSuite.*|TestCheckManyTubes|TestMoveAnswerLost|TestManyLetters|TestCheckInSteps|TestMembersAreCountedOnce|TestTakeAfterPolicyChange|TestMoveAcrossPartitionsKilled|TestEndedWays|TestPagesOfLoneGroups)$$' ./storage/redis -args -histories 4
	$(LONG_RACE) -run '^(TestTwoInstances|TestGroupsOfTwoInstances|TestReplicaWithoutTheEnd|TestTLSOnCluster|TestTLSBySentinels|TestStuckNode|TestOutlastsFailures|TestTransientFailures|TestClockStep|TestScheduleThroughFailover)$$' ./storage/redis -args -histories 4

long-server:
	$(LONG) -run '^TestAgainstItself$$' ./tools/conformance/differ -args -plain 1000 -timed 100
	$(LONG) -run '^(TestKeyedLies|TestLimitStats|TestEndless|TestHostileData|TestOnRedstalkd|TestEveryModeOnBeanstalkd)$$' ./tools/conformance/ledger ./tube ./server/httpapi ./storage/embedded/wal ./tools/bench
	$(LONG) -run '^TestInstances$$' ./server/schedule ./server/jobbatch
	$(LONG_RACE) -run '^(TestSchedule|TestInstancesShare)$$' ./server/gateway/zywaited ./server/webhook
	$(LONG_RACE) -run '^(TestReserveBatchOfLargeJobs|TestReserveBatchIsBounded|TestEveryVerbOnEngines|TestBodiesInUse|TestKeptReplyOutlivesItsJob|TestBurstForWaiters)$$' ./server
	$(LONG) -run '^TestAsBeanstalkdReads$$' ./storage/beanstalkd -args -binlog-seeds 25

long-programs: bin/redstalkd.test
	$(LONG_REDSTALKD) -test.run '^(TestTranscripts|TestExtensions)$$' -every-engine
	$(LONG_REDSTALKD) -test.run '^(TestFaultProxy|TestRateOfThreeInstances|TestSlotMigration|TestGatewayInstances|TestPushLedger|TestImportKilled|TestPasswordIsNotPrinted|TestDiskReserve|TestHowManyInstances|TestHostileBodies|TestPushLedgerKilled|TestDiskFull|TestClusterFailover)$$'
	$(LONG_REDSTALKD) -test.run '^(TestLateness|TestDueAtTheLimit|TestWaitsThatEndWhenDue)$$' -rare 2
	$(LONG) -run '^TestLongJobs$$' ./tools/checks
	$(LONG_REDSTALKD) -test.run '^TestDiffer(OnTwoInstances|InPartitions|OnCluster)?$$' -differ-commands 2000

long-chaos: bin/redstalkd.test
	$(LONG_REDSTALKD) -test.run '^TestChaos$$' -ha-long -chaos-rounds 2

long-kills: bin/redstalkd.test
	$(LONG_REDSTALKD) -test.run '^TestCrash' -crash-rounds 6
	$(LONG_REDSTALKD) -test.run '^(TestMoveKilled|TestUpstreamKilled|TestImportMany)$$' -move-jobs 6000 -move-kills 6 -import-jobs 100000
	$(LONG) -run '^TestKilledInTheMiddle$$' ./cmd/redstalk -args -exec-jobs 1000
	$(LONG) -run '^TestKilled$$' ./protocol/outbox

long-clients:
	cd clients/go && $(LONG_RACE) -run '^(TestChaos|TestManyJobs|TestManyResults)$$' ./worker

# oauth2-proxy and an OpenID provider, for people who sign on.
long-signon: bin/redstalkd.test
	GOBIN=$(CURDIR)/bin/signon $(GO) install -ldflags='-s -w' github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6
	GOBIN=$(CURDIR)/bin/signon $(GO) install -ldflags='-s -w' github.com/zitadel/oidc/v3/example/server@v3.52.0
	$(LONG_REDSTALKD) -test.run '^TestOpenIDConnect$$' -oauth2-proxy $(CURDIR)/bin/signon/oauth2-proxy -openid-provider $(CURDIR)/bin/signon/server

# After test-typescript, which builds what is imported here.
long-pairs: bin/redstalkd.test test-typescript
	@sh tools/deps.sh $(PHP_TOOLS) $(PYTHON_TOOLS) $(TYPESCRIPT_TOOLS) $(RUBY_TOOLS)
	$(LONG_REDSTALKD) -test.run '^TestPairs$$'

# Most tests wait more than they compute, so several files are tested at the same time.
test-php: build deps ## test clients/php with Laravel and Symfony on each engine and on beanstalkd
	@sh tools/deps.sh $(PHP_TOOLS)
	cd clients/php && find tests -name '*Test.php' | xargs -P 4 -n 1 timeout 300 phpunit

test-python: build deps ## test clients/python on each engine and on beanstalkd
	@sh tools/deps.sh $(PYTHON_TOOLS)
	cd clients/python && /usr/bin/python3 -m mypy redstalk
	cd clients/python && ls tests/test_*.py | xargs -P 4 -n 1 timeout 300 python3 -W ignore -m unittest

# The compiler is the only thing that comes from npm. Where npm has no network, nothing is tested.
test-typescript: build deps ## test clients/typescript on each engine and on beanstalkd
	@sh tools/deps.sh $(TYPESCRIPT_TOOLS)
	cd clients/typescript && if npm ci --ignore-scripts --no-audit --no-fund; then timeout 300 npm test; else echo "clients/typescript was not tested: npm has failed" >&2; fi

test-runtimes: build deps ## run the built package of clients/typescript on Node, and on Bun and Deno from npm
	@sh tools/deps.sh $(TYPESCRIPT_TOOLS)
	cd clients/typescript && npm ci --no-audit --no-fund && timeout 400 node test/runtimes.mjs

test-ruby: build deps ## test clients/ruby with Active Job on each engine and on beanstalkd
	@sh tools/deps.sh $(RUBY_TOOLS)
	cd clients/ruby && ls test/*_test.rb | xargs -P 4 -n 1 timeout 300 ruby -w

# Chromium is large, so only those targets install it that need it.
CONSOLE_TEST = $(GO) test -tags chromium -vet=off -count=1 -v -ldflags='-s -w' ./server/httpapi/console

test-console: deps ## test each page of the console in a real Chromium, each on one of two engines; CONSOLE=-every-engine on both. Screenshots go to bin/console
	@sh tools/deps.sh chromium
	$(CONSOLE_TEST) -timeout 15m -args $(CONSOLE)

screenshots: deps ## take the screenshots of docs/console.md again, from a server that has been busy for SHOP_FOR
	@sh tools/deps.sh chromium
	$(CONSOLE_TEST) -timeout 30m -run '^TestDocPictures$$' -args -doc-pictures ../../../docs/console -shop-for $(SHOP_FOR)

deps: ## install redis-server, beanstalkd, nginx, postgresql and mariadb-server by apt where they are missing
	@sh tools/deps.sh $(APT_TOOLS)

bench: build deps ## compare beanstalkd and redstalk on this machine, side by side
	bin/stalkbench compare --rounds 5 --duration 2s --loads $(BENCH_LOADS) \
	  --servers 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port} -z 2000000' \
	  --servers 'memory=bin/redstalkd -p {port} -z 2000000 --store memory:' \
	  --servers 'beanstalkd-f0=beanstalkd -l 127.0.0.1 -p {port} -z 2000000 -b {dir} -f0' \
	  --servers 'embedded=bin/redstalkd -p {port} -z 2000000 --store embedded:{dir}' \
	  --servers 'embedded-f50=bin/redstalkd -p {port} -z 2000000 --store embedded:{dir} -f 50' \
	  --servers "redis=pre: redis-server --port {port2} --dir {dir} --save '' ;; bin/redstalkd -p {port} -z 2000000 --store redis://127.0.0.1:{port2}/0" \
	  --servers "redis-aof=pre: redis-server --port {port2} --dir {dir} --save '' --appendonly yes ;; bin/redstalkd -p {port} -z 2000000 --store redis://127.0.0.1:{port2}/0" \
	  --markdown bin/bench.md --svg bin/bench.svg

bench-access: build ## measure the cost of TLS and of users, compared with plain servers
	bin/stalkbench compare --rounds 5 --duration 2s --loads 50c,50c-p16 \
	  --servers 'plain=bin/redstalkd -p {port} --store memory:' \
	  --servers 'tls=bin/redstalkd -p {port2} --store memory: --tls 127.0.0.1:{port} --tls-cert {cert} --tls-key {key}' \
	  --servers 'access=bin/redstalkd -p {port} --store memory: --access {access}' \
	  --markdown bin/bench-access.md

bench-floor: build deps ## measure the upper limit: compare with servers that only read and reply, and that only store bodies
	$(CC) -O2 -o bin/floor tools/bench/floor/floor.c
	bin/stalkbench compare --rounds 5 --duration 1s --loads 50c,500c,50c-10k,50c-100k \
	  --servers 'beanstalkd=beanstalkd -l 127.0.0.1 -p {port} -z 2000000' \
	  --servers 'floor=bin/floor {port}' \
	  --servers 'floor-disk=bin/floor {dir}/bodies {port}' \
	  --servers 'memory=bin/redstalkd -p {port} -z 2000000 --store memory:' \
	  --servers 'embedded=bin/redstalkd -p {port} -z 2000000 --store embedded:{dir}' \
	  --markdown bin/bench-floor.md

bench-cluster: deps ## measure the cost of an operation on each node of a Redis Cluster of 1, 2, 3 and 6 primaries, under GROWTH of load from one instance each
	$(GO) test -count=1 -timeout 20m -v -run '^TestGrowth$$' ./cmd/redstalkd -args -growth $(GROWTH)

test-clients: deps ## run third-party clients (PHP, Ruby, Node, Go, nc) on beanstalkd and on both engines, and Laravel and Symfony of three Debian suites, in CHROOTS, on every engine. Needs root
	@sh tools/deps.sh $(CLIENT_TOOLS) mmdebstrap
	cd testdata/clients/node && { npm ls >/dev/null 2>&1 || npm ci --no-audit --no-fund; }
	CHROOTS=$(CHROOTS) sh tools/chroots.sh $(SUITES)
	$(GO) test -count=1 github.com/beanstalkd/go-beanstalk
	$(GO) test -count=1 -timeout 20m -run '^Test(Task|Node)?Clients$$|^TestFrameworks$$' ./cmd/redstalkd -args -clients -chroots $(abspath $(CHROOTS))

test-prometheus: build deps ## let a real Prometheus scrape two instances on one Redis for a minute, with the alert rules
	@sh tools/deps.sh prometheus curl
	@sh tools/prometheus.sh

# Helm, Kustomize and the types of Kubernetes are a module of their own: the server does not depend on them.
test-kubernetes: ## render the Helm chart and the Kustomize directories, and check every object against the Go types of Kubernetes
	cd tools/deploy/kubernetes && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -vet=off -count=1 -ldflags='-s -w' ./...

# The first build of the API server takes longer than all other tests, so it is no part of make test-long.
test-kubernetes-server: ## apply all objects to a real API server of Kubernetes, which it builds, with strict validation
	@sh tools/deps.sh etcd-server
	cd tools/deploy/kubernetes/apiserver && $(GO) build -ldflags '-s -w' -o $(CURDIR)/bin/kube-apiserver .
	cd tools/deploy/kubernetes && $(GO) test -vet=off -count=1 -ldflags='-s -w' -v -run '^TestServer$$' . -args -apiserver $(CURDIR)/bin/kube-apiserver

test-kubernetes-update: build deps ## replace instances under load in the steps of the chart; clients must see no error
	@sh tools/deps.sh python3
	cd tools/deploy/kubernetes && $(GO) test -vet=off -count=1 -ldflags='-s -w' -v -run '^TestRollingUpdate$$' . -args -bin $(CURDIR)/bin

attack: build deps ## attack a running redstalk with what hurts queue servers, and print the effect on other clients; ATTACKS=a,b selects
	bin/stalkbench attack --bin bin/redstalkd --only '$(ATTACKS)'

crash: deps ## kill the server under load, CRASH_ROUNDS times, and inject an error into every file operation; audit the replies that clients got
	$(GO) test -count=1 -timeout 10m -v -run '^TestFaults$$' ./storage/embedded -args -faults 0
	$(GO) test -count=1 -timeout 60m -v -run '^TestCrash' ./cmd/redstalkd -args -crash-rounds $(CRASH_ROUNDS) -crash-seed $(CRASH_SEED)

chaos: deps ## kill, freeze, cut off and fail over instances and Redis under load, CHAOS_ROUNDS rounds for each way of running it; audit the replies that clients got
	$(GO) test -count=1 -timeout 30m -v -run 'Failover|Frozen|Migration|InstanceKilled|GoneAndBack' ./cmd/redstalkd -args -ha-long
	$(GO) test -count=1 -timeout 180m -v -run '^TestChaos$$' ./cmd/redstalkd -args -ha-long -chaos-rounds $(CHAOS_ROUNDS) -chaos-seed $(CHAOS_SEED)

oracle: build deps ## play the transcripts, and random scripts, on the real beanstalkd and compare
	bin/transcript oracle testdata/transcripts/*.txt
	$(GO) test -count=1 -timeout 15m -run '^TestFindsForgeries$$' ./tools/conformance/differ -args -every-forgery
	$(GO) test -count=1 -timeout 60m -v -run '^TestDiffer' ./cmd/redstalkd -args -differ-commands $(COMMANDS)

record: build deps ## record the transcripts again from the replies of the real beanstalkd
	bin/transcript record testdata/transcripts/*.txt

fuzz: ## fuzz the parser, the rules, whole connections, the log and the HTTP API, FUZZTIME each
	$(GO) test ./protocol -run '^$$' -fuzz '^FuzzReader$$' -fuzztime $(FUZZTIME)
	$(GO) test ./protocol -run '^$$' -fuzz '^FuzzLine$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server/webhook -run '^$$' -fuzz '^FuzzAllow$$' -fuzztime $(FUZZTIME)
	$(GO) test ./tube -run '^$$' -fuzz '^FuzzMachine$$' -fuzztime $(FUZZTIME)
	$(GO) test ./tube/cron -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZTIME)
	$(GO) test -tags poison ./server -run '^$$' -fuzz '^FuzzConnection$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server -run '^$$' -fuzz '^FuzzAuth$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server/access -run '^$$' -fuzz '^FuzzFile$$' -fuzztime $(FUZZTIME)
	$(GO) test ./storage/embedded/wal -run '^$$' -fuzz '^FuzzReplay$$' -fuzztime $(FUZZTIME)
	$(GO) test ./storage/embedded/tables -run '^$$' -fuzz '^FuzzRecord$$' -fuzztime $(FUZZTIME)
	$(GO) test ./storage/embedded -run '^$$' -fuzz '^FuzzLog$$' -fuzztime $(FUZZTIME)
	$(GO) test ./storage/beanstalkd -run '^$$' -fuzz '^FuzzScan$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server/gateway -run '^$$' -fuzz '^FuzzNames$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server/gateway/ruffianjiang -run '^$$' -fuzz '^FuzzPush$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server/httpapi -run '^$$' -fuzz '^FuzzJob$$' -fuzztime $(FUZZTIME)
	$(GO) test ./server/httpapi -run '^$$' -fuzz '^FuzzQuery$$' -fuzztime $(FUZZTIME)

release-check: CONSOLE = -every-engine
release-check: check test test-long test-console test-clients test-packages crash chaos oracle attack fuzz ## everything that must pass before a release; it takes hours. CRASH_ROUNDS, CHAOS_ROUNDS, COMMANDS and FUZZTIME set the amount
	$(GO) test -count=1 -timeout 15m -run '^TestRenameModule$$' ./tools/checks
	GOOS=darwin $(GO) build -o /dev/null ./cmd/redstalkd
	GOOS=freebsd $(GO) build -o /dev/null ./cmd/redstalkd

check: ## gofmt, go mod tidy, vet, staticcheck, govulncheck, and the types on other systems
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	cd clients/go && $(GO) mod tidy -diff && $(GO) vet ./...
	cd clients/go/otel && $(GO) mod tidy -diff && $(GO) vet ./...
	$(GO) vet -tags chromium ./server/httpapi/console
	$(GO) vet -tags nogateways ./cmd/redstalkd && $(GO) test -tags nogateways -vet=off -short -run '^TestWithoutGateways$$' -ldflags='-s -w' ./cmd/redstalkd
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	cd clients/go && $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	GO="$(GO)" sh tools/vulns/check.sh
	$(GO) test ./tools/vulns -args -vulns
	$(GO) run ./tools/typecheck darwin freebsd

release: ## build .deb, .rpm, .tar.gz, SBOM and checksums for amd64 and arm64 into bin/release, and the packages of the clients into bin/release/clients
	@sh tools/deps.sh $(PACKAGE_TOOLS)
	sh tools/packages/build.sh $(VERSION) bin/release
	sh tools/packages/clients.sh $(VERSION) bin/release/clients

deb: ## build the .deb for this machine into bin/release; the first time takes a minute or two. MAINTAINER='NAME <MAIL>' is by default the author of the commit
	ARCHES=$$($(GO) env GOARCH) KINDS=deb sh tools/packages/build.sh $(VERSION) bin/release

image: ## build the container image redstalk:VERSION for this machine; CONTAINER=podman or buildah instead of docker
	sh tools/packages/build.sh $(VERSION) bin/release
	$(CONTAINER) build -f tools/deploy/Dockerfile --build-arg TARGETARCH=$$($(GO) env GOARCH) -t redstalk:$(VERSION) -t redstalk bin/release

test-packages: ## install the clients from their packages in empty projects; build the packages twice and compare them; open the .rpm, check the SBOM; install the .deb in a minimal Debian, serve, upgrade, purge. Needs root
	@sh tools/deps.sh mmdebstrap rpm python3-jsonschema $(PACKAGE_TOOLS)
	$(LONG) -run '^TestClientPackages$$' ./tools/packages
	sh tools/packages/test.sh $(VERSION)

clean: ## remove the build output
	rm -rf bin
