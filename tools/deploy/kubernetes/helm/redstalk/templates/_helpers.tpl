{{- define "redstalk.fullname" -}}
{{- if contains "redstalk" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-redstalk" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "redstalk.selector" -}}
app.kubernetes.io/name: redstalk
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "redstalk.labels" -}}
{{ include "redstalk.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* The name of the secret with REDSTALK_STORE. */ -}}
{{- define "redstalk.secret" -}}
{{- if .Values.redis.existingSecret }}{{ .Values.redis.existingSecret }}
{{- else if .Values.redis.url }}{{ include "redstalk.fullname" . }}
{{- else }}{{ fail "engine redis needs redis.url or redis.existingSecret" }}
{{- end }}
{{- end }}

{{- /* The template of the pods, which both engines share. */ -}}
{{- define "redstalk.pod" -}}
metadata:
  labels:
    {{- include "redstalk.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- $annotations := .Values.podAnnotations }}
  {{- if and (eq .Values.engine "redis") (not .Values.redis.existingSecret) }}
  {{- /* The pods are replaced when the URL changes. */}}
  {{- $annotations = merge (dict "checksum/store" (sha256sum .Values.redis.url)) $annotations }}
  {{- end }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  enableServiceLinks: false
  automountServiceAccountToken: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- if eq .Values.engine "redis" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "redstalk.selector" . | nindent 10 }}
  {{- end }}
  containers:
    - name: redstalk
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      {{- with .Values.image.pullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      {{- with .Values.settings }}
      args:
        {{- range $name, $value := . }}
        {{- /* Without int64 a large number would be written with an exponent. */}}
        - {{ printf "--%s=%v" $name (kindIs "float64" $value | ternary (int64 $value) $value) | quote }}
        {{- end }}
      {{- end }}
      {{- if or (eq .Values.engine "redis") .Values.envFrom }}
      envFrom:
        {{- if eq .Values.engine "redis" }}
        - secretRef: {name: {{ include "redstalk.secret" . }}}
        {{- end }}
        {{- with .Values.envFrom }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
      env:
        {{- if eq .Values.engine "embedded" }}
        - {name: REDSTALK_STORE, value: "embedded:/data/{{ .Values.volume.directory }}"}
        {{- end }}
        - {name: REDSTALK_LISTEN, value: 0.0.0.0}
        - {name: REDSTALK_HTTP, value: "0.0.0.0:8080"}
        - {name: REDSTALK_GRACE, value: {{ .Values.grace }}}
        {{- with .Values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: beanstalk, containerPort: 11300}
        - {name: http, containerPort: 8080}
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 6
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        failureThreshold: 6
      {{- if or (eq .Values.engine "embedded") .Values.extraVolumeMounts }}
      volumeMounts:
        {{- if eq .Values.engine "embedded" }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- end }}
      lifecycle:
        preStop:
          exec: {command: [/usr/bin/redstalk, drain, {{ if eq .Values.engine "redis" }}--after, {{ .Values.drainAfter }}, {{ end }}--wait, {{ .Values.drain }}]}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
  {{- with .Values.extraVolumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
