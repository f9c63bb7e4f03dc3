"""Projects of Spark Declarative Pipelines for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SPEC = """
name: shop
storage: file:///tmp/unused
catalog: spark_catalog
database: shop
configuration:
  spark.sql.shuffle.partitions: "2"
  shop.least: "100"
libraries:
  - glob:
      include: transformations/**
"""

SILVER = '''
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

spark = SparkSession.active()
LEAST = int(spark.conf.get("shop.least"))


@dp.materialized_view(comment="Orders without tests")
def silver_orders() -> DataFrame:
    orders = spark.read.table("raw.orders")
    return (
        orders.filter(orders.status != "test")
        .withColumnRenamed("id", "order_id")
        .withColumn("amount", (F.col("cents") / 100).cast("decimal(12, 2)"))
        .withColumn("status", F.upper("status"))
        .drop("cents")
    )


@dp.temporary_view
def large_orders():
    return spark.table("silver_orders").where(F.col("amount") >= LEAST)


@dp.materialized_view(name="shop.order_items", schema="order_id INT, item STRING, n INT, status STRING")
def items():
    items = spark.table("bronze_items").alias("i")
    orders = spark.table("shop.silver_orders").alias("o")
    joined = items.join(orders, F.col("i.order_id") == F.col("o.order_id"), "left")
    return joined.select("i.order_id", "i.item", "i.n", "o.status")


@dp.materialized_view
def gold_by_customer():
    customers = spark.table("raw.customers")
    totals = spark.table("silver_orders").groupBy("customer").agg(
        F.count("*").alias("orders"), F.sum("amount").alias("total"), F.max("placed_at").alias("newest")
    )
    joined = customers.join(totals, customers.id == totals.customer, "left").drop(totals.customer)
    return joined.withColumn("orders", F.coalesce("orders", F.lit(0)))


@dp.materialized_view
def gold_ranked():
    by_total = Window.partitionBy("status").orderBy(F.desc("amount"), "order_id")
    return spark.table("large_orders").withColumn("place", F.row_number().over(by_total)).where("place <= 3")


@dp.materialized_view
def gold_all_ids():
    return (
        spark.table("silver_orders").select(F.col("order_id").alias("id"), F.lit("order").alias("of"))
        .unionByName(spark.table("raw.customers").select(F.lit("customer").alias("of"), "id"))
    )


@dp.materialized_view
def gold_by_day():
    return spark.sql("""
        WITH days AS (SELECT date_trunc('DAY', placed_at) AS day, amount, status FROM silver_orders)
        SELECT day, status, count(*) AS n, sum(amount) AS total FROM days GROUP BY day, status
    """).withColumnRenamed("n", "orders").orderBy("day")


@dp.materialized_view
def sampled():
    return spark.table("silver_orders").sample(0.5)


@dp.materialized_view
def with_udf():
    double = F.udf(lambda x: x * 2, "int")
    return spark.table("silver_orders").select(double("order_id").alias("x"))


@dp.materialized_view
def peeked():
    frame = spark.table("silver_orders")
    return frame.select(*[name for name in frame.columns if name != "status"])


@dp.materialized_view
def over_sampled():
    return spark.table("sampled").groupBy("status").count()


@dp.materialized_view
def as_of_now():
    return spark.table("silver_orders").withColumn("seen_at", F.current_timestamp())
'''

STREAMS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F


@dp.table
def bronze_items():
    return spark.readStream.table("raw.items").where("n > 0").withColumn("n", F.col("n").cast("int"))


dp.create_streaming_table("events", comment="Two feeds in one table")


@dp.append_flow(target="events")
def from_web():
    return spark.readStream.table("raw.web").select("at", F.lit("web").alias("feed"), "what")


@dp.append_flow(target="events", name="shops")
def from_shops():
    return spark.readStream.table("raw.shops").select("what", "at", F.lit("shop").alias("feed"))


@dp.table
def counted_items():
    return spark.readStream.table("raw.items").groupBy("item").count()


@dp.table
def from_changing():
    return spark.readStream.table("raw.orders")


@dp.table
def not_streamed():
    return spark.read.table("raw.items")


dp.create_sink("alerts", "kafka", {"topic": "alerts"})


@dp.append_flow(target="alerts")
def to_alerts():
    return spark.readStream.table("events")


dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="raw.changes", keys=["id"], sequence_by="at")
"""

GOLD = """
-- what the shop looks at
CREATE MATERIALIZED VIEW gold_items (item STRING, orders BIGINT, pieces BIGINT)
COMMENT 'Pieces by item'
PARTITIONED BY (item)
TBLPROPERTIES ('quality' = 'gold')
AS SELECT item, count(DISTINCT order_id) AS orders, sum(n) AS pieces FROM order_items GROUP BY item;

CREATE TEMPORARY VIEW customers_named AS
SELECT id, upper(name) AS name FROM raw.customers WHERE name IS NOT NULL;

CREATE MATERIALIZED VIEW spark_catalog.shop.gold_best AS
SELECT c.name, g.total FROM customers_named c JOIN gold_by_customer g ON g.id = c.id WHERE g.total > 50;

CREATE STREAMING TABLE web_errors AS SELECT at, what FROM STREAM(raw.web) WHERE what LIKE 'error%';

CREATE STREAMING TABLE all_errors;
CREATE FLOW errors_of_web AS INSERT INTO all_errors BY NAME SELECT what, at FROM STREAM web_errors;
CREATE FLOW errors_of_shops AS INSERT INTO all_errors BY NAME SELECT at, what FROM STREAM raw.shops WHERE what LIKE 'error%';

CREATE MATERIALIZED VIEW gold_feeds AS SELECT feed, count(*) AS n FROM events GROUP BY feed;

CREATE MATERIALIZED VIEW unnamed AS SELECT count(*) FROM raw.orders;

CREATE VIEW kept AS SELECT 1 AS one;

INSERT INTO gold_feeds SELECT 'x', 1;

SET spark.sql.ansi.enabled = false;
CREATE MATERIALIZED VIEW lax AS SELECT CAST(name AS INT) AS n FROM raw.customers;
"""

FILES = {
    "spark-pipeline.yml": SPEC,
    "transformations/silver.py": SILVER,
    "transformations/streams.py": STREAMS,
    "transformations/marts/gold.sql": GOLD,
}


def write_project(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """Write a project's files and return its spec."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "spark-pipeline.yml"
