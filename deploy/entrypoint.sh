#!/bin/sh
# What a container of the image runs: `executor`, as Spark starts one on Kubernetes; `master` or `worker`, of a
# standalone cluster; anything else is a command.
set -eu

case "${1:-}" in
executor)
    options=$(mktemp)
    # Spark hands the options of the executor's Java on as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
    number=0
    while value=$(printenv "SPARK_JAVA_OPT_$number"); do
        printf '"%s"\n' "$(printf %s "$value" | sed 's/[\\"]/\\&/g')" >>"$options"
        number=$((number + 1))
    done
    exec java "@$options" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_EXTRA_CLASSPATH:+:$SPARK_EXTRA_CLASSPATH}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
master)
    shift
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master "$@"
    ;;
worker)
    shift
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "$@"
    ;;
*)
    exec "$@"
    ;;
esac
